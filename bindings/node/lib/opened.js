'use strict';

/** The files that `open` with a callback has opened, by the numbers of their descriptors. */
const opened = new Map();

module.exports = { opened };
