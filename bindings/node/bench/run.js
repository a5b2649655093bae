'use strict';
// Compares laio with Node's functions: interleaved rounds, medians. Build the addon with `./build --release`
// before.
// usage: node bench/run.js [directory on a disk]

const { execFileSync, spawn } = require('node:child_process');
const { once } = require('node:events');
const fs = require('node:fs');
const os = require('node:os');
const path = require('node:path');
const node = require('node:fs/promises');
const laio = require('../promises.js');

const ROUNDS = 9;
const root = fs.mkdtempSync(path.join(process.argv[2] ?? os.tmpdir(), 'laio-bench-'));
const file = path.join(root, 'file');
const PAGE = 4096;

const median = (values) => values.sort((a, b) => a - b)[values.length >> 1];

/** The time of a call and the processor time of all threads for it, in µs, over `count` calls. */
async function time(call, count, isSync = false) {
  const [begin, cpu] = [process.hrtime.bigint(), process.cpuUsage()];
  if (isSync) for (let i = 0; i < count; i++) call();
  else for (let i = 0; i < count; i++) await call();
  const took = Number(process.hrtime.bigint() - begin) / 1e3;
  const { user, system } = process.cpuUsage(cpu);
  return [took / count, (user + system) / count];
}

/** Prints a row: medians of the subjects, and each as a multiple of the first. */
async function compare(title, count, { sync, promises }, prepare = () => {}) {
  const subjects = [
    ...(sync ? [['sync', () => time(sync, count, true)]] : []),
    ['Node', () => time(() => promises(node), Math.ceil(count / 8))],
    ['laio', () => time(() => promises(laio), count)],
  ];
  const times = subjects.map(() => []);
  for (let round = -1; round < ROUNDS; round++) {
    for (const [i, [, measure]] of subjects.entries()) {
      await prepare();
      const took = await measure();
      // The first round warms up.
      if (round >= 0) times[i].push(took);
    }
  }
  for (const [kind, what] of ['time', 'processor time'].entries()) {
    const medians = times.map((all) => median(all.map((pair) => pair[kind])));
    const cell = ([name], i) => `${name} ${medians[i].toFixed(1)} (${(medians[i] / medians[0]).toFixed(2)})`;
    console.log(`${title}, ${what}: ${subjects.map(cell).join(', ')} µs`);
  }
}

async function cached() {
  fs.writeFileSync(file, Buffer.alloc(PAGE, 'x'));
  const buffer = Buffer.alloc(PAGE);
  const fd = fs.openSync(file);
  const handles = new Map([
    [node, await node.open(file)],
    [laio, await laio.open(file)],
  ]);
  await compare('readFile 4 KiB', 20_000, {
    sync: () => fs.readFileSync(file),
    promises: (p) => p.readFile(file),
  });
  const text = { sync: () => fs.readFileSync(file, 'utf8'), promises: (p) => p.readFile(file, 'utf8') };
  await compare('readFile 4 KiB, text', 20_000, text);
  await compare('stat', 40_000, { sync: () => fs.statSync(file), promises: (p) => p.stat(file) });
  await compare('FileHandle.read 4 KiB', 40_000, {
    sync: () => fs.readSync(fd, buffer, 0, PAGE, 0),
    promises: (p) => handles.get(p).read(buffer, 0, PAGE, 0),
  });
  fs.closeSync(fd);
  for (const handle of handles.values()) await handle.close();
}

async function directories() {
  const large = path.join(root, 'large');
  const tree = path.join(root, 'tree');
  fs.mkdirSync(large);
  for (let i = 0; i < 1000; i++) fs.writeFileSync(path.join(large, `name-${i}`), '');
  for (let i = 0; i < 100; i++) {
    fs.mkdirSync(path.join(tree, `${i}`), { recursive: true });
    for (let j = 0; j < 99; j++) fs.writeFileSync(path.join(tree, `${i}`, `name-${j}`), '');
  }
  await compare('readdir of 1,000', 300, {
    sync: () => fs.readdirSync(large),
    promises: (p) => p.readdir(large),
  });
  const recursive = { recursive: true };
  await compare('recursive readdir of 10,000', 8, {
    sync: () => fs.readdirSync(tree, recursive),
    promises: (p) => p.readdir(tree, recursive),
  });
}

/** A thousand files, 64 at a time, whose data is not in memory. */
async function cold() {
  const many = path.join(root, 'cold');
  fs.mkdirSync(many);
  const files = Array.from({ length: 1000 }, (_, i) => path.join(many, `${i}`));
  for (const name of files) fs.writeFileSync(name, Buffer.alloc(4 * PAGE, 'x'));
  execFileSync('sync', ['-f', many]);
  // A process that is there from the start: after a fork each page that this one writes to is copied.
  const loop = `while read -r line; do
    for f in "$0"/*; do dd if="$f" iflag=nocache count=0 status=none; done; echo
  done`;
  const dropper = spawn('sh', ['-c', loop, many], { stdio: ['pipe', 'pipe', 'inherit'] });
  const drop = async () => {
    const dropped = once(dropper.stdout, 'data');
    dropper.stdin.write('drop\n');
    await dropped;
  };
  const readAll = async (p) => {
    const left = [...files];
    const read = async () => {
      for (let name; (name = left.pop()); ) await p.readFile(name);
    };
    await Promise.all(Array.from({ length: 64 }, read));
  };
  await compare('1,000 cold files, 64 at a time', 1, { promises: readAll }, drop);
  dropper.stdin.end();
}

/** The slowest of 1,000 cached reads, beside eight reads that take 100 ms each. */
async function besideSlow() {
  const pipe = path.join(root, 'pipe');
  execFileSync('mkfifo', [pipe]);
  const feed = `const fs = require('fs'), fd = fs.openSync(process.argv[1], 'w');
    setInterval(() => fs.writeSync(fd, '12345678'), 100);`;
  const keep = fs.openSync(pipe, 'r+');
  const feeder = spawn(process.execPath, ['-e', feed, pipe], { stdio: 'ignore' });
  for (const [name, p] of [
    ['Node', node],
    ['laio', laio],
    ['Node', node],
    ['laio', laio],
  ]) {
    let running = true;
    const slow = Array.from({ length: 8 }, async () => {
      const handle = await p.open(pipe, 'r+');
      while (running) await handle.read(Buffer.alloc(1));
      await handle.close();
    });
    await new Promise((resolve) => setTimeout(resolve, 300));
    const times = [];
    for (let i = 0; i < (p === node ? 60 : 10_000); i++)
      times.push((await time(() => p.readFile(file), 1))[0]);
    times.sort((a, b) => a - b);
    running = false;
    await Promise.all(slow);
    const at = (part) =>
      (times[Math.min(times.length - 1, Math.floor(times.length * part))] / 1e3).toFixed(3);
    const figures = `median ${at(0.5)}, p99.9 ${at(0.999)} ms`;
    console.log(`cached read beside slow ones: ${name} ${figures} (${times.length} reads)`);
  }
  feeder.kill();
  fs.closeSync(keep);
}

(async () => {
  try {
    console.log(`Node ${process.version}, ${os.cpus().length} processors, ${root}`);
    await cached();
    await directories();
    await cold();
    await besideSlow();
  } finally {
    fs.rmSync(root, { recursive: true, force: true });
  }
})();
