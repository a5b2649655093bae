'use strict';
// Each call on a name gives the result, the error and the files that Node's own gives.

const assert = require('node:assert/strict');
const { execFileSync } = require('node:child_process');
const fs = require('node:fs');
const path = require('node:path');
const { test } = require('node:test');
const { pathToFileURL } = require('node:url');
const { directory, laio, node, outcome, plain, same } = require('./both.js');

/** `what` is the text of the call. */
function prepare(what) {
  fs.writeFileSync('file', 'contents\n');
  fs.writeFileSync('empty', '');
  if (what.includes('large')) fs.writeFileSync('large', Buffer.alloc(1_500_000, 'abc'));
  fs.writeFileSync('ümlaut', Buffer.from([0xff, 0xfe, 0x41]));
  fs.mkdirSync('dir/below/deep', { recursive: true });
  fs.writeFileSync('dir/a', 'a');
  fs.writeFileSync('dir/below/b', 'b');
  fs.symlinkSync('file', 'link');
  fs.symlinkSync('absent', 'dangling');
  fs.symlinkSync('dir', 'dirlink');
}

const time = new Date('2020-02-02T02:02:02.5Z');
const strange = () => Buffer.concat([Buffer.from('bytes-'), Buffer.from([0xff])]);
async function* pieces() {
  yield 'one ';
  yield Buffer.from('two');
}

const names = [
  'file',
  'empty',
  'large',
  'dir',
  'link',
  'dangling',
  'absent',
  'file/x',
  '',
  'a\0b',
  7,
  null,
  undefined,
];
const calls = {
  access: [
    ...each((p, f) => p.access(f)),
    (p) => p.access('file', 7),
    (p) => p.access('file', 9),
    (p) => p.access('file', 'x'),
  ],
  stat: [
    ...each((p, f) => p.stat(f)),
    (p) => p.stat('file', { bigint: true }),
    (p) => p.stat('file', null),
    (p) => p.stat('file', {}),
  ],
  lstat: [...each((p, f) => p.lstat(f)), (p) => p.lstat('link', { bigint: true })],
  readFile: [
    ...each((p, f) => p.readFile(f)),
    ...each((p, f) => p.readFile(f, 'utf8')),
    ...['latin1', 'base64', 'hex', 'ucs2', 'ascii', 'base64url', 'buffer', 'nonsense', 5].map(
      (encoding) => (p) => p.readFile('ümlaut', encoding),
    ),
    (p) => p.readFile('file', { flag: 'a+', encoding: 'utf8' }),
    (p) => p.readFile('new', { flag: 'a+' }),
    (p) => p.readFile('file', { flag: 'w' }),
    (p) => p.readFile('file', { flag: 'nonsense' }),
    (p) => p.readFile(pathToFileURL('file'), 'utf8'),
    (p) => p.readFile(new URL('http://example.org/')).catch((error) => error.code),
    (p) => p.readFile(Buffer.from('file')),
    (p) => p.readFile('/proc/self/comm', 'utf8'),
    (p) => p.readFile('file', { signal: AbortSignal.abort('why') }),
    (p) => p.readFile('file', { signal: 7 }),
    aborted((p, signal) => p.readFile('file', { signal })),
    aborted((p, signal) => p.readFile('large', { signal })),
  ],
  writeFile: [
    ...[
      'text',
      Buffer.from('bytes'),
      new Uint16Array([1, 2]),
      new DataView(new ArrayBuffer(3)),
      7,
      null,
      {},
      ['x', 'y'],
    ].map((data) => (p) => p.writeFile('file', data)),
    (p) => p.writeFile('new', 'x', { mode: 0o600, flag: 'wx' }),
    (p) => p.writeFile('file', 'x', { flag: 'wx' }),
    (p) => p.writeFile('file', 'x', { flag: 'r+' }),
    (p) => p.writeFile('file', 'f00d', 'hex'),
    (p) => p.writeFile('file', 'x', { flush: true }),
    (p) => p.writeFile('file', 'x', { flush: 1 }),
    (p) => p.writeFile('file', 'x', { mode: 'nonsense' }),
    (p) => p.writeFile('file', pieces()),
    (p) => p.writeFile('dir', 'x'),
    (p) => p.writeFile('absent/x', 'x'),
    (p) => p.writeFile('new', Buffer.alloc(2_000_000, 'x')),
    aborted((p, signal) => p.writeFile('new', 'x', { signal })),
  ],
  appendFile: [
    (p) => p.appendFile('file', 'more'),
    (p) => p.appendFile('new', 'x'),
    (p) => p.appendFile('dir', 'x'),
    (p) => p.appendFile('file', 7),
  ],
  readdir: [
    ...each((p, f) => p.readdir(f)),
    (p) => p.readdir('.', { withFileTypes: true }),
    (p) => p.readdir('.', { recursive: true }),
    (p) => p.readdir('dir', { recursive: true, withFileTypes: true }),
    (p) => p.readdir('.', 'buffer'),
    (p) => p.readdir('.', 'hex'),
    async (p) => (fs.writeFileSync(strange(), ''), await p.readdir('.')),
    async (p) => (
      fs.writeFileSync(strange(), ''),
      await p.readdir(Buffer.from('.'), { encoding: 'buffer', withFileTypes: true })
    ),
    (p) => p.readdir('.', 'nonsense'),
    ...[false, true].map((withFileTypes) => async (p) => {
      for (let i = 0; i < 40; i++) fs.mkdirSync(`dir/${i}/${i}`, { recursive: true });
      return p.readdir('./dir/../dir/', { recursive: true, withFileTypes });
    }),
    (p) => p.readdir('file', { recursive: true }),
  ],
  opendir: [
    ...each((p, f) => p.opendir(f).then(read)),
    ...['.', Buffer.from('.'), 'dirlink/', './dir'].flatMap((f) =>
      [undefined, null, 'buffer', { encoding: 'hex' }, { bufferSize: 1 }, { recursive: true }].map(
        (options) => (p) => p.opendir(f, options).then(read),
      ),
    ),
    (p) => p.opendir('.', 'nonsense'),
    async (p) => {
      for (let i = 0; i < 1500; i++) fs.writeFileSync(`dir/a-long-name-${i}`, '');
      return (await p.opendir('dir').then(read)).found;
    },
    async (p) => {
      const directory = await p.opendir('dir');
      const [first, second] = await Promise.all([directory.read(), directory.read()]);
      const third = await new Promise((resolve) => directory.read((error, entry) => resolve([error, entry])));
      await directory.close();
      const errors = [directory.close(), outcome(() => directory.read()), outcome(() => directory.readSync())];
      return { found: byName([first, second]), third, errors: await Promise.allSettled(errors).then(plain) };
    },
    async (p) => {
      const directory = await p.opendir('dir');
      const first = directory.read();
      const errors = [await outcome(() => directory.readSync()), await outcome(() => directory.closeSync())];
      const found = [await first, directory.readSync(), directory.readSync()];
      directory.closeSync();
      return { errors, found: byName(found), again: await outcome(() => directory.closeSync()) };
    },
    async (p) => {
      const directory = await p.opendir('dir');
      fs.rmSync('dir', { recursive: true });
      return read(directory);
    },
    async (p) => {
      for await (const entry of await p.opendir('dir')) return entry.isFile() || entry.isDirectory();
    },
  ],
  mkdir: [
    ...each((p, f) => p.mkdir(f)),
    ...[
      'new',
      'new/a/b',
      'new/a/b/',
      'dir',
      'file',
      'file/x/y',
      'link/x',
      'dirlink/x/y',
      'dangling',
      './new/../x',
      '',
    ].map((f) => (p) => p.mkdir(f, { recursive: true })),
    (p) => p.mkdir('new', 0o700),
    (p) => p.mkdir('new', '700'),
    (p) => p.mkdir('new', { mode: 'x' }),
    (p) => p.mkdir('new', { recursive: 1 }),
    (p) => p.mkdir(Buffer.from('new/x'), { recursive: true }),
  ],
  rmdir: [
    ...each((p, f) => p.rmdir(f)),
    (p) => p.rmdir('dir/below/deep'),
    (p) => p.rmdir('dir', { recursive: false }),
  ],
  unlink: each((p, f) => p.unlink(f)),
  rename: [
    ...each((p, f) => p.rename(f, 'new')),
    (p) => p.rename('file', 'absent/x'),
    (p) => p.rename('file', 7),
  ],
  link: [...each((p, f) => p.link(f, 'new')), (p) => p.link('file', 'empty')],
  symlink: [
    (p) => p.symlink('anything', 'new'),
    (p) => p.symlink('x', 'file'),
    (p) => p.symlink('x', 'new', 'dir'),
    (p) => p.symlink('x', 'new', 'nonsense'),
    (p) => p.symlink(7, 'new'),
    (p) => p.symlink('x', 'absent/y'),
    (p) => p.symlink('', 'new'),
  ],
  readlink: [
    ...each((p, f) => p.readlink(f)),
    (p) => p.readlink('link', 'buffer'),
    (p) => p.readlink('link', 'hex'),
  ],
  truncate: [
    ...each((p, f) => p.truncate(f)),
    (p) => p.truncate('file', 3),
    (p) => p.truncate('file', -3),
    (p) => p.truncate('file', 20),
    (p) => p.truncate('file', 1.5),
    (p) => p.truncate('file', 'x'),
  ],
  chmod: [
    ...each((p, f) => p.chmod(f, 0o640)),
    (p) => p.chmod('file', '600'),
    (p) => p.chmod('file', -1),
    (p) => p.chmod('file'),
  ],
  chown: [
    ...each((p, f) => p.chown(f, -1, -1)),
    (p) => p.chown('file', process.getuid(), -1),
    (p) => p.chown('file', 'x', 1),
    (p) => p.chown('file', 2 ** 33, 1),
  ],
  lchown: each((p, f) => p.lchown(f, -1, -1)),
  utimes: [
    ...each((p, f) => p.utimes(f, time, time)),
    ...[
      [1, 2],
      [1.25, 1e9 + 0.625],
      [-1.5, 0],
      ['3', '4'],
      [NaN, 1],
      ['x', 1],
      [time, 7e9],
    ].map(([a, m]) => async (p) => {
      await p.utimes('file', a, m);
      const { atimeNs, mtimeNs } = fs.statSync('file', { bigint: true });
      return a < 0 ? String(mtimeNs) : `${atimeNs} ${mtimeNs}`;
    }),
  ],
  lutimes: [
    ...each((p, f) => p.lutimes(f, time, time)),
    async (p) => (await p.lutimes('link', 1, 2), fs.lstatSync('link').mtimeMs),
  ],
  copyFile: [
    ...each((p, f) => p.copyFile(f, 'new')),
    ...[0, 1, 2, 4, 8, 'x'].map((mode) => (p) => p.copyFile('file', 'empty', mode)),
    (p) => p.copyFile('file', 'file'),
    (p) => p.copyFile('file', 'dir'),
    (p) => p.copyFile('file', 'absent/x'),
    (p) => p.copyFile('large', 'file'),
    (p) => p.copyFile('/proc/self/comm', 'new'),
  ],
  cp: [
    ...each((p, f) => p.cp(f, 'new').then(relink)),
    ...each((p, f) => p.cp(f, 'new', { recursive: true }).then(relink)),
    ...['new', 'new/', './new/a/b', 'dir', 'dir/below/new', 'dirlink/new', 'file', 'file/x', 'dir/../new'].map(
      (to) => (p) => p.cp('dir', to, { recursive: true }).then(relink),
    ),
    ...['dir/', './dir/.', 'dirlink', 'dirlink/', Buffer.from('dir'), pathToFileURL('dir')].map(
      (from) => (p) => p.cp(from, 'new', { recursive: true }).then(relink),
    ),
    ...[
      { force: false },
      { errorOnExist: true },
      { errorOnExist: true, force: false },
      { verbatimSymlinks: true },
      { dereference: true },
      { dereference: true, verbatimSymlinks: true },
      { filter: (from) => !from.endsWith('b') },
      { mode: 1 },
      { mode: 'x' },
      { force: 1 },
    ].flatMap((options) =>
      ['new', 'other'].map((to) => async (p) => {
        fs.mkdirSync('other/below', { recursive: true });
        fs.writeFileSync('other/a', 'another');
        filled();
        await p.cp('dir', to, { recursive: true, ...options }).finally(relink);
      }),
    ),
    async (p) => {
      fs.utimesSync('dir/a', 1, 2);
      await p.cp('dir', 'new', { recursive: true, preserveTimestamps: true });
      return fs.statSync('new/a').mtimeMs;
    },
    async (p) => {
      filled();
      execFileSync('mkfifo', ['dir/below/pipe']);
      await p.cp('dir', 'new', { recursive: true }).catch(({ code }) => assert.equal(code, 'ERR_FS_CP_FIFO_PIPE'));
      fs.rmSync('dir/below/pipe');
      return relink();
    },
    async (p) => {
      filled();
      fs.mkdirSync(Buffer.concat([Buffer.from('dir/'), strange()]));
      return p.cp('dir', 'new', { recursive: true }).then(relink);
    },
  ],
  realpath: [
    ...each((p, f) => p.realpath(f).then(within)),
    ...['.', '..', 'dir/below/../below', 'dirlink/a', 'ümlaut'].map((f) => (p) => p.realpath(f).then(within)),
    ...['file/', 'dirlink/', 'dangling/', '/proc/self'].map((f) => (p) => p.realpath(f).then(within)),
    (p) => p.realpath(Buffer.from('ümlaut'), 'buffer').then(within),
    (p) => p.realpath('ümlaut', { encoding: 'latin1' }).then(within),
    (p) => p.realpath('file', 'nonsense'),
    async (p) => {
      const name = 'a (deleted)';
      fs.writeFileSync(name, '');
      return within(await p.realpath(name));
    },
    async (p) => {
      const name = strange();
      fs.writeFileSync(name, '');
      return (await p.realpath(name, 'buffer')).subarray(-name.length);
    },
  ],
  statfs: [
    ...each((p, f) => p.statfs(f).then(shape)),
    (p) => p.statfs('/proc').then(shape),
    (p) => p.statfs('/proc', { bigint: true }).then(shape),
    (p) => p.statfs('file', null),
  ],
  mkdtemp: [
    ...['made-', 'dir/', Buffer.from('made-'), 'ü'].map((prefix) => (p) => p.mkdtemp(prefix).then(taken)),
    (p) => p.mkdtemp('made-', 'utf8').then(taken),
    (p) => p.mkdtemp('made-', { encoding: 'buffer' }).then((made) => taken(`${made}`)),
    ...['absent/made-', 'file/', 'a\0b', 7, undefined].map((prefix) => async (p) => {
      const { code, syscall } = await p.mkdtemp(prefix).catch((error) => error);
      return { code, syscall };
    }),
  ],
  rm: [
    ...[undefined, { force: true }, { recursive: true }, { force: true, recursive: true }].flatMap((options) =>
      each((p, f) => p.rm(f, options)),
    ),
    ...['dirlink', 'dirlink/', 'dangling/', 'absent/', '.', 'dir/.', 'dir/below/..', Buffer.from('dir')].map(
      (f) => (p) => p.rm(f, { force: true, recursive: true }),
    ),
    ...[null, 'x', {}, { force: 1 }, { maxRetries: -1 }, { retryDelay: 'x' }].map(
      (options) => (p) => p.rm('dir', options),
    ),
    (p) => p.rm('dir', { recursive: true, maxRetries: 2 }),
    async (p) => {
      for (let i = 0; i < 200; i++) fs.writeFileSync(`dir/below/${i}`, '');
      fs.writeFileSync(Buffer.concat([Buffer.from('dir/'), strange()]), '');
      await p.rm('dir', { recursive: true });
    },
  ],
  open: [
    ...each(async (p, f) => (await p.open(f)).close()),
    ...[
      'r',
      'rs',
      'r+',
      'rs+',
      'sr+',
      'w',
      'wx',
      'xw',
      'w+',
      'wx+',
      'a',
      'ax',
      'as',
      'a+',
      'ax+',
      'sa+',
      'x',
      'rw',
      1.5,
      2,
    ].map((flags) => async (p) => (await p.open('file', flags)).close()),
    async (p) => (await p.open('new', 'w', 0o600)).close(),
    async (p) => (await p.open('new', 'w', 'x')).close(),
  ],
};

function each(call) {
  return names.map((file) => named(`${call} of ${file}`, (promises) => call(promises, file)));
}

/** More to copy: links of all kinds, and modes. */
function filled() {
  const links = { up: '../file', deep: 'below/../a', none: 'absent/./x/', full: '/etc/hostname', down: 'below' };
  for (const [name, target] of Object.entries(links)) fs.symlinkSync(target, `dir/${name}`);
  fs.writeFileSync('dir/program', Buffer.alloc(70_000, 'program'));
  fs.chmodSync('dir/program', 0o751);
  fs.chmodSync('dir/below', 0o1710);
}

/** Makes absolute links relative, so that they are the same in each directory of the test. */
function relinkBelow(directory) {
  for (const entry of fs.readdirSync(directory, { withFileTypes: true })) {
    const name = `${directory}/${entry.name}`;
    if (entry.isDirectory() && fs.existsSync(name)) relinkBelow(name);
    if (!entry.isSymbolicLink()) continue;
    const target = fs.readlinkSync(name);
    if (!target.startsWith(process.cwd())) continue;
    fs.unlinkSync(name);
    fs.symlinkSync(`absolute:${within(target)}`, name);
  }
}

const relink = () => relinkBelow('.');

/** All entries of an open directory, which may be in any order. */
async function read(directory) {
  const found = [];
  for await (const entry of directory) found.push(entry);
  return { path: directory.path, isDir: directory instanceof fs.Dir, found: byName(found) };
}

function byName(entries) {
  const text = (entry) => JSON.stringify(entry?.name ?? null);
  return entries.map(plain).sort((a, b) => (text(a) < text(b) ? -1 : 1));
}

/** A path as seen from the directory of the test. */
const within = (found) => path.relative(process.cwd(), `${found}`);

/** What does not change in the status of a file system. */
function shape(stats) {
  const { type, bsize } = stats;
  return { type, bsize, keys: Object.keys(stats), class: stats.constructor.name };
}

/** What is the same of each new directory, which is removed. */
function taken(made) {
  const { mode } = fs.statSync(made);
  fs.rmdirSync(made);
  return { start: made.slice(0, -6), rest: /^[A-Za-z0-9]{6}$/.test(made.slice(-6)), mode };
}

function aborted(call) {
  return named(`${call} aborted`, async (promises) => {
    const controller = new AbortController();
    const running = call(promises, controller.signal);
    controller.abort();
    await running;
  });
}

/** A function with a text for messages. */
function named(text, call) {
  return Object.assign(call, { text });
}

for (const [name, cases] of Object.entries(calls)) {
  test(name, async (t) => {
    for (const call of cases)
      await same(t, `${name}: ${call.text ?? call}`, () => prepare(call.text ?? `${call}`), call);
  });
}

test('every name that laio makes is compared', () => {
  const own = Object.keys(laio).filter((name) => laio[name] !== node[name]);
  assert.deepEqual(own.sort(), Object.keys(calls).sort());
});

test('the names are those of Node, and the page says how each is made', () => {
  assert.deepEqual(Object.keys(laio).sort(), Object.keys(node).sort());
  const page = fs.readFileSync(`${__dirname}/../../../docs/node.md`, 'utf8');
  const row = (title) => new RegExp(`^\\| ${title} \\| (.*) \\|$`, 'm').exec(page)?.[1] ?? '';
  const listed = (title) => [...row(title).matchAll(/`(\w+)`/g)].map(([, name]) => name);
  const [own, given] = [listed('laio'), listed('Node')];
  for (const name of Object.keys(node)) {
    assert.equal(own.includes(name), laio[name] !== node[name], `${name} in the row of laio`);
    assert.equal(given.includes(name), laio[name] === node[name], `${name} in the row of Node`);
  }
});

test('the status has all fields of Node, and its class', async (t) => {
  const file = `${directory(t)}/file`;
  fs.writeFileSync(file, 'x');
  for (const options of [{}, { bigint: true }]) {
    for (const name of ['stat', 'lstat']) {
      const [ours, theirs] = [await laio[name](file, options), await node[name](file, options)];
      assert.deepEqual(ours, theirs);
      assert.deepEqual(Object.keys(ours), Object.keys(theirs));
    }
  }
  assert.ok((await laio.stat(file)) instanceof fs.Stats);
});

test('calls that are made together do not mix their results', async (t) => {
  const root = directory(t);
  const numbers = Array.from({ length: 100 }, (_, i) => i);
  for (const i of numbers) {
    fs.writeFileSync(`${root}/${i}`, `${i}`.repeat(i));
    fs.symlinkSync(`target-${i}`, `${root}/link-${i}`);
    fs.mkdirSync(`${root}/dir-${i}/name-${i}`, { recursive: true });
  }
  const results = await Promise.all(
    numbers.flatMap((i) => [
      laio.readFile(`${root}/${i}`, 'utf8'),
      laio.stat(`${root}/${i}`).then(({ size }) => size),
      laio.readlink(`${root}/link-${i}`),
      laio.readdir(`${root}/dir-${i}`).then(([name]) => name),
    ]),
  );
  const expected = numbers.flatMap((i) => {
    const text = `${i}`.repeat(i);
    return [text, text.length, `target-${i}`, `name-${i}`];
  });
  assert.deepEqual(results, expected);
});
