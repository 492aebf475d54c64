import { classes, scale } from 'virtual:sdk';
import type { Messages } from '../../lib/language.svelte';
import limit from './limit.step?raw';
import invert from './invert.step?raw';

/** A step to start from. `sample` is its test input: inputs by name, as the form accepts them. */
export type Example = { name: keyof Messages['steps']['example']; source: string; sample: Record<string, string> };

export const examples: Example[] = [
  { name: 'scale', source: scale.replaceAll('STEPNAME', 'scale'), sample: { x: '[[1, 2.5, -3, 0]]' } },
  { name: 'limit', source: limit, sample: { boxes: '[[10, 10, 60, 60], [20, 20, 80, 90], [5, 5, 9, 9]]', scores: '0.92, 0.31, 0.77' } },
  { name: 'classify', source: classes, sample: { scores: '[[0.1, 2.4, 1.1, -3]]' } },
  { name: 'invert', source: invert, sample: {} },
];
