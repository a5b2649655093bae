'use strict';
// Random programs of calls.

const fs = require('node:fs');
const path = require('node:path');
const { outcome, tree } = require('./both.js');

const MOST_CALLS = 10;

/** A generator of numbers below a limit, from a seed (mulberry32). */
function numbers(seed) {
  let state = seed >>> 0;
  return (limit) => {
    state = (state + 0x6d2b79f5) >>> 0;
    let mixed = Math.imul(state ^ (state >>> 15), state | 1);
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61);
    return ((mixed ^ (mixed >>> 14)) >>> 0) % limit;
  };
}

const NAMES = ['a', 'b', 'c', 'a/b', 'a/c', 'b/c/a', 'c/', './a', '../x/a', 'ä', 'b/..', ''];
const FLAGS = ['r', 'r+', 'w', 'w+', 'wx', 'a', 'a+', 'ax+', 'rs'];
const ENCODINGS = [undefined, null, 'utf8', 'latin1', 'hex', 'base64', 'nonsense'];

/** A call with its arguments chosen: a function of the promises and of the open files of the program. */
function choose(below) {
  const pick = (list) => list[below(list.length)];
  const name = () => {
    const chosen = pick(NAMES);
    return below(8) === 0 ? Buffer.from(chosen) : chosen;
  };
  const [file, other, data] = [name(), name(), pick(['', 'text', 'ünï', Buffer.alloc(below(9000), 'xyz')])];
  const [mode, size, at, flag, encoding] = [
    pick([0o600, 0o644, 0o755, '640']),
    below(5000),
    below(100) - 5,
    pick(FLAGS),
    pick(ENCODINGS),
  ];
  const onNames = [
    (p) => p.writeFile(file, data, { flag, mode }),
    (p) => p.writeFile(file, data),
    (p) => p.appendFile(file, data),
    (p) => p.readFile(file, encoding),
    (p) => p.readFile(file, { encoding, flag }),
    (p) => p.stat(file),
    (p) => p.lstat(file, { bigint: true }),
    (p) => p.mkdir(file, { recursive: size % 2 === 0, mode: 0o755 }),
    (p) => p.rmdir(file),
    (p) => p.unlink(file),
    (p) => p.rename(file, other),
    (p) => p.link(file, other),
    (p) => p.symlink(file, other),
    (p) => p.readlink(file, encoding),
    (p) => p.truncate(file, size),
    (p) => p.chmod(file, mode),
    (p) => p.utimes(file, size, at),
    (p) => p.access(file, size % 8),
    (p) => p.copyFile(file, other, size % 4),
    (p) => p.readdir(file),
    (p) => p.rm(file, { force: true, recursive: size % 2 === 0 }),
    (p) => p.rm(other, { recursive: at > 0 }),
    (p) => p.statfs(file).then(({ type, bsize }) => [type, bsize]),
    (p) => p.realpath(file).then((found) => path.basename(found)),
  ];
  const number = below(3);
  const onFiles = [
    (h) => h.read(Buffer.alloc(size), 0, size, at),
    (h) => h.read({ buffer: Buffer.alloc(64), position: null }),
    (h) => h.write(data, at < 0 ? null : at),
    (h) => h.writev([Buffer.from('ab'), Buffer.from('c')], at),
    (h) => h.readv([Buffer.alloc(10), Buffer.alloc(size)], at),
    (h) => h.readFile(encoding),
    (h) => h.writeFile(data),
    (h) => h.stat(),
    (h) => h.truncate(size),
    (h) => h.chmod(mode),
    (h) => h.sync(),
    (h) => h.utimes(size, 5),
    (h) => h.close(),
  ];
  const open = async (p, handles) => {
    await handles[number]?.close();
    handles[number] = undefined;
    handles[number] = await p.open(file, flag, mode);
  };
  const [call, used] = [pick(onNames), pick(onFiles)];
  const useFile = (p, handles) => handles[number] && used(handles[number]);
  return pick([call, call, open, useFile, useFile]);
}

/** The calls of the program with this seed. */
function program(seed) {
  const below = numbers(seed);
  return Array.from({ length: 1 + below(MOST_CALLS) }, () => choose(below));
}

/** The outcome of each call, and the files that are there then. `around` has what comes before and after the calls. */
async function run(promises, calls, root, around = {}) {
  fs.mkdirSync(path.join(root, 'x'), { recursive: true });
  process.chdir(path.join(root, 'x'));
  const [handles, outcomes] = [[], []];
  await around.before?.();
  for (const call of calls) outcomes.push(await outcome(() => call(promises, handles)));
  await around.after?.();
  for (const handle of handles) await handle?.close();
  process.chdir('/');
  const files = tree(root);
  fs.rmSync(root, { recursive: true, force: true });
  return { outcomes, files };
}

module.exports = { numbers, program, run };
