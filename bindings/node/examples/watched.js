'use strict';
// Warns when a handler holds up the event loop.
//
//     node watched.js sync|laio|compute FILE

const fs = require('node:fs');
const laio = require('../index.js');

function sumOf(count) {
  let sum = 0;
  for (let i = 0; i < count; i++) sum += i % 7;
  return sum;
}

async function main(way, file) {
  const detector = laio.detect({ over: 20 });
  // The watch begins when its worker has started.
  while (detector.looks === 0) await new Promise((resolve) => setTimeout(resolve, 1));
  if (way === 'sync') console.log(fs.readFileSync(file).length, 'bytes');
  else if (way === 'laio') console.log((await laio.promises.readFile(file)).length, 'bytes');
  else console.log(sumOf(1e8));
  console.log('stalls:', detector.stalls);
  await detector.stop();
}

main(...process.argv.slice(2));
