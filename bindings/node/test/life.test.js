'use strict';
// What keeps a process alive and what ends it, calls that wait, and memory. A FIFO is what blocks: its reader
// waits until something is written. LAIO_NODE_CALLS is the number of calls after which nothing must be left.

const assert = require('node:assert/strict');
const { spawn, execFileSync } = require('node:child_process');
const { once } = require('node:events');
const fs = require('node:fs');
const path = require('node:path');
const { test } = require('node:test');
const { Worker } = require('node:worker_threads');
const { skipAttempts, directory, laio } = require('./both.js');
const { stats, tryReadFile, tryStat } = require('../index.js');

const PACKAGE = JSON.stringify(path.join(__dirname, '..'));
const START = `const laio = require(${PACKAGE}), { promises } = laio, fifo = process.argv[1];`;

function fifo(t) {
  const file = path.join(directory(t), 'fifo');
  execFileSync('mkfifo', [file]);
  return file;
}

/** Runs a program in another process. `waiting` is called when it prints something. */
async function run(t, program, file, { flags = [], waiting } = {}) {
  const child = spawn(process.execPath, [...flags, '-e', START + program, file ?? ''], {
    stdio: ['ignore', 'pipe', 'pipe'],
  });
  t.after(() => child.kill('SIGKILL'));
  const [out, errors] = [[], []];
  child.stdout.on('data', (data) => out.push(data));
  child.stderr.on('data', (data) => errors.push(data));
  if (waiting) child.stdout.once('data', waiting);
  const [code, signal] = await once(child, 'close');
  return {
    code: code ?? signal,
    out: Buffer.concat(out).toString(),
    errors: Buffer.concat(errors).toString(),
  };
}

test('an idle package does not keep a process alive, nor does an open file', async (t) => {
  const program = `promises.open('/dev/null').then((it) => { globalThis.it = it; console.log('opened'); });`;
  assert.deepEqual(await run(t, program), { code: 0, out: 'opened\n', errors: '' });
});

test('a pending call keeps a process alive', async (t) => {
  const file = fifo(t);
  const program = `promises.readFile(fifo, 'utf8').then((text) => console.log(text)); console.log('waiting');`;
  const found = await run(t, program, file, { waiting: () => fs.promises.writeFile(file, 'written') });
  assert.deepEqual(found, { code: 0, out: 'waiting\nwritten\n', errors: '' });
});

const PENDING = `promises.readFile(fifo); const timer = setTimeout(() => {}, 1e6);`;

test('process.exit ends a process with calls in flight', async (t) => {
  const found = await run(t, `${PENDING} setImmediate(() => process.exit(7));`, fifo(t));
  assert.deepEqual(found, { code: 7, out: '', errors: '' });
});

test('an uncaught error ends a process with calls in flight', async (t) => {
  const found = await run(t, `${PENDING} setImmediate(() => { throw new Error('uncaught'); });`, fifo(t));
  assert.equal(found.code, 1);
  assert.match(found.errors, /Error: uncaught/);
});

test('calls that wait do not stop others', async (t) => {
  const pipe = fifo(t);
  // Open for writing too, so that opening does not wait.
  const handles = await Promise.all(Array.from({ length: 4 }, () => laio.open(pipe, 'r+')));
  const reads = handles.flatMap((handle) => Array.from({ length: 4 }, () => handle.read(Buffer.alloc(4))));
  const file = `${path.dirname(pipe)}/file`;
  await laio.writeFile(file, 'x');
  assert.equal(await laio.readFile(file, 'utf8'), 'x');
  assert.ok(stats().pending >= 16);
  const writer = fs.openSync(pipe, 'w');
  fs.writeSync(writer, 'text'.repeat(16));
  for (const { bytesRead, buffer } of await Promise.all(reads)) {
    assert.deepEqual([bytesRead, buffer.toString()], [4, 'text']);
  }
  fs.closeSync(writer);
  await Promise.all(handles.map((handle) => handle.close()));
});

test('calls that do not wait let timers run', async (t) => {
  const file = path.join(directory(t), 'file');
  await laio.writeFile(file, 'x');
  const handle = await laio.open(file);
  for (const call of [
    () => laio.readFile(file),
    () => laio.stat(file),
    () => laio.readdir(path.dirname(file)),
    () => laio.access('/absent').catch(() => {}),
    () => handle.read(Buffer.alloc(1)),
    () => handle.stat(),
    () => handle.chmod(0o600),
  ]) {
    let ran = false;
    setTimeout(() => {
      ran = true;
    }, 1);
    while (!ran) await call();
  }
  await handle.close();
});

test('a call that was aborted neither waits nor keeps the process alive', async (t) => {
  const program = `
    const controller = new AbortController();
    const read = promises.readFile(fifo, { signal: controller.signal });
    read.catch((error) => console.log(error.name, error.cause));
    setImmediate(() => controller.abort('reason'));`;
  assert.deepEqual(await run(t, program, fifo(t)), { code: 0, out: 'AbortError reason\n', errors: '' });
});

test('memory that the program has dropped is not used by the kernel', async (t) => {
  const file = fifo(t);
  const program = `
    const fs = require('node:fs');
    (async () => {
      const writer = fs.openSync(fifo, 'r+');
      const handle = await promises.open(fifo);
      const print = ({ bytesRead, buffer }) => console.log(bytesRead, buffer.subarray(0, bytesRead).toString());
      const reads = Array.from({ length: 8 }, () => handle.read(Buffer.alloc(64 * 1024)).then(print));
      for (let i = 0; i < 4; i++) { gc(); structuredClone(new ArrayBuffer(1e6)); }
      for (let i = 0; i < 8; i++) {
        fs.writeSync(writer, 'text');
        await reads.shift();
      }
      await handle.close();
    })();`;
  const found = await run(t, program, file, { flags: ['--expose-gc'] });
  assert.deepEqual(found, { code: 0, out: '4 text\n'.repeat(8), errors: '' });
});

test('a worker makes calls, and ends with calls in flight', async (t) => {
  const file = fifo(t);
  const program = `
    const { workerData, parentPort } = require('node:worker_threads');
    const { promises } = require(${PACKAGE});
    promises.readFile(workerData);
    promises.readFile('/proc/self/comm').then((data) => parentPort.postMessage(data.length > 0));`;
  for (let i = 0; i < 10; i++) {
    const worker = new Worker(program, { eval: true, workerData: file });
    assert.deepEqual(await once(worker, 'message'), [true]);
    await worker.terminate();
  }
  assert.equal(typeof (await laio.readFile('/proc/self/comm', 'utf8')), 'string');
});

test('a worker whose calls are over ends by itself', async () => {
  const program = `require(${PACKAGE}).promises.readFile('/proc/self/comm').then(() => {});`;
  const [code] = await once(new Worker(program, { eval: true }), 'exit');
  assert.equal(code, 0);
});

test('a child process gets no descriptor', async (t) => {
  const file = path.join(directory(t), 'file-of-the-parent');
  const handle = await laio.open(file, 'w');
  const listed = execFileSync('ls', ['-l', '/proc/self/fd']).toString();
  assert.ok(!listed.includes('file-of-the-parent'));
  await handle.close();
});

test('child processes run beside calls in flight, and make calls of their own', async (t) => {
  const pipe = fifo(t);
  const handle = await laio.open(pipe, 'r+');
  const reads = Array.from({ length: 8 }, () => handle.read(Buffer.alloc(4)));
  const program = `promises.readFile('/proc/self/comm', 'utf8').then((text) => console.log(text.length > 0));`;
  const children = await Promise.all(Array.from({ length: 4 }, () => run(t, program)));
  for (const child of children) assert.deepEqual(child, { code: 0, out: 'true\n', errors: '' });
  await handle.write('text'.repeat(8));
  for (const { buffer } of await Promise.all(reads)) assert.equal(buffer.toString(), 'text');
  await handle.close();
});

test('calls leave neither memory nor descriptors behind', async (t) => {
  const program = `
    const fs = require('node:fs');
    const file = fifo + '.file';
    fs.writeFileSync(file, Buffer.alloc(4096));
    const used = async () => {
      for (let i = 0; i < 5; i++) { gc(); await new Promise(setImmediate); }
      const { heapUsed, external } = process.memoryUsage();
      return heapUsed + external;
    };
    const open = () => fs.readdirSync('/proc/self/fd').length;
    const calls = [
      () => promises.readFile(file),
      () => promises.stat(file),
      () => promises.stat('/absent').catch(() => {}),
      () => promises.readdir(require('node:path').dirname(file)),
      () => promises.writeFile(file, 'x'.repeat(4096)),
      async () => {
        const handle = await promises.open(file);
        await handle.read(Buffer.alloc(100));
        await handle.close();
      },
      () => promises.readFile('/proc/self/comm'), async () => laio.tryReadFile(file),
    ];
    const round = async (count) => {
      for (let i = 0; i < count; i++) for (const call of calls) await call();
    };
    (async () => {
      await round(500);
      const [memory, files] = [await used(), open()];
      await round(Math.ceil(Number(process.env.LAIO_NODE_CALLS ?? 24_000) / calls.length));
      const grown = (await used()) - memory;
      console.log(open() - files, grown < 2e6 ? 'no leak' : grown);
    })();`;
  const found = await run(t, program, path.join(directory(t), 'x'), { flags: ['--expose-gc'] });
  assert.deepEqual(found, { code: 0, out: '0 no leak\n', errors: '' });
});

test('a file that the program has lost is closed', async (t) => {
  const program = `
    const open = () => require('node:fs').readdirSync('/proc/self/fd').length;
    (async () => {
      await promises.readFile('/proc/self/comm');
      const before = open();
      for (let i = 0; i < 50; i++) await promises.open('/dev/null');
      for (let i = 0; i < 100 && open() > before; i++) { gc(); await new Promise(setImmediate); }
      console.log(open() <= before);
    })();`;
  assert.deepEqual(await run(t, program, '', { flags: ['--expose-gc'] }), {
    code: 0,
    out: 'true\n',
    errors: '',
  });
});

test('calls that never wait', { skip: skipAttempts }, async (t) => {
  const file = path.join(directory(t), 'file');
  fs.writeFileSync(file, 'contents');
  // The kernel may also refuse a look-up without waiting because another one is in progress.
  const tried = async (call) => {
    for (let value; ; await laio.readFile(file)) {
      if ((value = call()) !== undefined) return value;
    }
  };
  assert.equal(await tried(() => tryReadFile(file, 'utf8')), 'contents');
  assert.deepEqual(await tried(() => tryReadFile(file)), Buffer.from('contents'));
  assert.deepEqual(await tried(() => tryStat(file)), fs.statSync(file));
  assert.equal(tryReadFile(fifo(t)), undefined);
  assert.throws(() => tryReadFile('a\0b'), { code: 'ERR_INVALID_ARG_VALUE' });
  const pipe = await laio.open(fifo(t), 'r+');
  assert.equal(pipe.tryRead(Buffer.alloc(4)), undefined);
  await pipe.write('text');
  assert.equal((await pipe.read(Buffer.alloc(4))).buffer.toString(), 'text');
  await pipe.close();
});
