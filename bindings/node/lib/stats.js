'use strict';
// `fs.Stats` from the fields of a status.

const fs = require('node:fs');
const { scratch } = require('./engine.js');

// A call writes the fields here, as floating-point numbers and then as whole ones.
const NUMBERS = 14;
const FIELDS = 18;
const numbers = new Float64Array(scratch.buffer, scratch.byteOffset, NUMBERS);
const whole = new BigInt64Array(scratch.buffer, scratch.byteOffset + numbers.byteLength, FIELDS);

// Newer releases of Node make the dates when they are read.
const hasDates = !('atime' in fs.Stats.prototype);
const date = (ms) => new Date(Math.round(Number(ms)));

// In the order of Node's own, so that both print the same.
function Stats() {
  this.dev = numbers[0];
  this.mode = numbers[1];
  this.nlink = numbers[2];
  this.uid = numbers[3];
  this.gid = numbers[4];
  this.rdev = numbers[5];
  this.blksize = numbers[6];
  this.ino = numbers[7];
  this.size = numbers[8];
  this.blocks = numbers[9];
  this.atimeMs = numbers[10];
  this.mtimeMs = numbers[11];
  this.ctimeMs = numbers[12];
  this.birthtimeMs = numbers[13];
  if (hasDates) addDates(this);
}
Stats.prototype = fs.Stats.prototype;

function BigIntStats() {
  [
    this.dev,
    this.mode,
    this.nlink,
    this.uid,
    this.gid,
    this.rdev,
    this.blksize,
    this.ino,
    this.size,
    this.blocks,
  ] = whole;
  const times = [10, 12, 14, 16].map((index) => whole[index] * 10n ** 9n + whole[index + 1]);
  [this.atimeMs, this.mtimeMs, this.ctimeMs, this.birthtimeMs] = times.map((ns) => ns / 10n ** 6n);
  [this.atimeNs, this.mtimeNs, this.ctimeNs, this.birthtimeNs] = times;
  if (hasDates) addDates(this);
}

function addDates(stats) {
  stats.atime = date(stats.atimeMs);
  stats.mtime = date(stats.mtimeMs);
  stats.ctime = date(stats.ctimeMs);
  stats.birthtime = date(stats.birthtimeMs);
}

/** The object for a status that a call has written to the scratch memory, or whose bytes it has returned. */
function makeStats(answer, bigint) {
  if (typeof answer !== 'number') scratch.set(answer);
  if (!bigint) return new Stats();
  if (BigIntStats.prototype.constructor === BigIntStats) {
    // Node does not export its class.
    BigIntStats.prototype = Object.getPrototypeOf(fs.statSync('/', { bigint: true }));
  }
  return new BigIntStats();
}

const FS_FIELDS = ['type', 'bsize', 'frsize', 'blocks', 'bfree', 'bavail', 'files', 'ffree'];
const fsFields = new BigUint64Array(scratch.buffer, scratch.byteOffset, FS_FIELDS.length);
let fsPrototype;
let hasFragments;

/** The object for the status of a file system, as `makeStats`. */
function makeFsStats(answer, bigint) {
  if (typeof answer !== 'number') scratch.set(answer);
  if (fsPrototype === undefined) {
    // Node does not export its class. Only newer releases have `frsize`.
    const example = fs.statfsSync('/');
    fsPrototype = Object.getPrototypeOf(example);
    hasFragments = 'frsize' in example;
  }
  const stats = Object.create(fsPrototype);
  for (const [i, name] of FS_FIELDS.entries()) {
    if (name === 'frsize' && !hasFragments) continue;
    stats[name] = bigint ? fsFields[i] : Number(fsFields[i]);
  }
  return stats;
}

module.exports = { makeStats, makeFsStats };
