'use strict';
// Random programs of calls give the results, errors and files that they give with Node's functions.
// LAIO_NODE_PROGRAMS is their number, LAIO_NODE_SEED the seed of the first one.

const assert = require('node:assert/strict');
const path = require('node:path');
const { test } = require('node:test');
const { directory, laio, node } = require('./both.js');
const { program, run } = require('./random.js');

const PROGRAMS = Number(process.env.LAIO_NODE_PROGRAMS ?? 2000);
const SEED = Number(process.env.LAIO_NODE_SEED ?? 1);
test(`${PROGRAMS} random programs from seed ${SEED}`, async (t) => {
  const before = process.cwd();
  t.after(() => process.chdir(before));
  const root = directory(t);
  for (let i = 0; i < PROGRAMS; i++) {
    const calls = program(SEED + i);
    const found = await run(laio, calls, path.join(root, 'p'));
    const expected = await run(node, calls, path.join(root, 'p'));
    assert.deepEqual(found, expected, `LAIO_NODE_SEED=${SEED + i} LAIO_NODE_PROGRAMS=1: ${calls.join('; ')}`);
  }
});
