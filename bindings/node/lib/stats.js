'use strict';
// `fs.Stats` from the fields of a status.

const fs = require('node:fs');
const { scratch } = require('./engine.js');

const FIELDS = 18;
// A call writes the fields here, as numbers of 64 bits. Halves make a number without a BigInt.
const place = [scratch.buffer, scratch.byteOffset];
const halves = new Uint32Array(...place, 2 * FIELDS);
const signed = new Int32Array(...place, 2 * FIELDS);
const whole = new BigInt64Array(...place, FIELDS);

// Newer releases of Node make the dates when they are read.
const hasDates = !('atime' in fs.Stats.prototype);
const date = (ms) => new Date(Math.round(Number(ms)));
const field = (index) => halves[2 * index + 1] * 2 ** 32 + halves[2 * index];
const ms = (index) =>
  (signed[2 * index + 1] * 2 ** 32 + halves[2 * index]) * 1e3 + halves[2 * index + 2] / 1e6;

// In the order of Node's own, so that both print the same.
function Stats() {
  this.dev = field(0);
  this.mode = halves[2];
  this.nlink = field(2);
  this.uid = halves[6];
  this.gid = halves[8];
  this.rdev = field(5);
  this.blksize = field(6);
  this.ino = field(7);
  this.size = field(8);
  this.blocks = field(9);
  this.atimeMs = ms(10);
  this.mtimeMs = ms(12);
  this.ctimeMs = ms(14);
  this.birthtimeMs = ms(16);
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

module.exports = { makeStats };
