'use strict';
// Random programs of calls on a FUSE file system that fails one of their requests give the results, errors and files
// that they give with Node's functions. LAIO_NODE_FAULTS is the program that mounts it (an example of
// `crates/laio-testing`), LAIO_NODE_PROGRAMS their number, LAIO_NODE_SEED the seed of the first one.

const assert = require('node:assert/strict');
const { spawn } = require('node:child_process');
const path = require('node:path');
const readline = require('node:readline');
const { test } = require('node:test');
const { laio, node } = require('./both.js');
const { numbers, program, run } = require('./random.js');

const PROGRAMS = Number(process.env.LAIO_NODE_PROGRAMS ?? 500);
const SEED = Number(process.env.LAIO_NODE_SEED ?? 1);
const KINDS = [
  'Create',
  'Fsync',
  'Link',
  'Mkdir',
  'Open',
  'Opendir',
  'Read',
  'Readdir',
  'Readlink',
  'Rename',
  'Rmdir',
  'Setattr',
  'Symlink',
  'Unlink',
  'Write',
];
// Node 20 has another error for a recursive mkdir without space.
const NAMES_ENOSPC = Number(process.versions.node.split('.')[0]) >= 22;
const ERRORS = { EIO: 5, EACCES: 13, ENOSPC: 28 };

/** Whether laio may make a request, and then another like it by the call that Node would make alone. */
function isTriedFirst(kind, calls) {
  // An attempt to open follows a link, and a helper that opens a file also brings it into memory.
  return kind === 'Readlink' || kind === 'Read' || calls.some((call) => `${call}`.includes('.rm('));
}

/** The mounted file system: its directory, and a function that sends a command and waits for its answer. */
async function mounted(t, program) {
  const child = spawn(program, { stdio: ['pipe', 'pipe', 'inherit'] });
  const lines = readline.createInterface({ input: child.stdout })[Symbol.asyncIterator]();
  const { value: directory = 'skipped: it has ended' } = await lines.next();
  t.after(() => child.stdin.end());
  const command = async (text) => {
    child.stdin.write(`${text}\n`);
    assert.equal((await lines.next()).value, 'done', text);
  };
  return { directory, command };
}

const { LAIO_NODE_FAULTS } = process.env;
const skip = LAIO_NODE_FAULTS === undefined && 'LAIO_NODE_FAULTS is not set';
test(`${PROGRAMS} random programs with a fault from seed ${SEED}`, { skip }, async (t) => {
  const { directory, command } = await mounted(t, LAIO_NODE_FAULTS);
  if (directory.startsWith('skipped: ')) return t.skip(directory.slice('skipped: '.length));
  const before = process.cwd();
  t.after(() => process.chdir(before));
  let met = 0;
  for (let i = 0; i < PROGRAMS; i++) {
    const calls = program(SEED + i);
    const below = numbers(-SEED - i);
    const [kind, error] = [KINDS[below(KINDS.length)], Object.keys(ERRORS)[below(3)]];
    if (kind === 'Mkdir' && error === 'ENOSPC' && !NAMES_ENOSPC) continue;
    const which = isTriedFirst(kind, calls) ? 'every' : 1 + below(2);
    const fault = `fail ${which} ${kind} ${ERRORS[error]}`;
    const around = { before: () => command(fault), after: () => command('clear') };
    const found = await run(laio, calls, path.join(directory, 'p'), around);
    const expected = await run(node, calls, path.join(directory, 'p'), around);
    const what = `LAIO_NODE_SEED=${SEED + i} LAIO_NODE_PROGRAMS=1, ${fault}: ${calls.join('; ')}`;
    assert.deepEqual(found, expected, what);
    met += found.outcomes.some((outcome) => outcome.error?.code === error);
  }
  t.diagnostic(`${met} of ${PROGRAMS} programs have met the error`);
});
