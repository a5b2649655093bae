// Compiles only if the declarations accept what Node's accept.

import type * as node from 'node:fs/promises';
import * as laio from '../promises.js';
import { promises, readTextOf } from './uses.ts';

const asNode: typeof node = laio;
const fromIndex: typeof node = promises;
const text: Promise<string | undefined> = readTextOf(asNode, fromIndex);
void text;
