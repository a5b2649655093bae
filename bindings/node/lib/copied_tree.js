'use strict';
// `cp` of a directory to a new name. What is not usual is left to Node: `cp` then is as if nothing was tried.

const path = require('node:path');
const { engine, settle } = require('./engine.js');
const { pathOf } = require('./arguments.js');

/** Copies a directory; false if it was not copied. `calls` are `lstat` and `realpath`. */
async function copyTree(from, to, options, calls) {
  const names = [pathOf(from), pathOf(to)];
  if (!names.every(isPlainName) || !areUsual(options)) return false;
  try {
    const [source, target] = names.map((name) => path.resolve(name));
    if (!(await calls.lstat(source)).isDirectory()) return false;
    const [inner, outer] = [await calls.realpath(source), await calls.realpath(path.dirname(target))];
    // A copy in the directory itself has no end.
    if (`${outer}/`.startsWith(inner === '/' ? inner : `${inner}/`)) return false;
    await settle(engine.copyTree(source, target, options.verbatimSymlinks === true), 'cp', names[0]);
    return true;
  } catch {
    return false;
  }
}

/** What `..` leads to depends on the links before it. */
const isPlainName = (name) => typeof name === 'string' && name !== '' && !name.split('/').includes('..');

function areUsual(options) {
  if (options === null || typeof options !== 'object' || options.recursive !== true) return false;
  const { errorOnExist, verbatimSymlinks, mode = 0 } = options;
  const are = (value, ...usual) => usual.includes(value);
  return (
    are(options.filter, undefined) &&
    are(options.force, undefined, true) &&
    are(options.dereference, undefined, false) &&
    are(options.preserveTimestamps, undefined, false) &&
    are(errorOnExist, undefined, true, false) &&
    are(verbatimSymlinks, undefined, true, false) &&
    mode === 0
  );
}

module.exports = { copyTree };
