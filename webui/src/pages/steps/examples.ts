import { classes, scale } from 'virtual:sdk';
import limit from './limit.step?raw';
import invert from './invert.step?raw';

/** A step to start from. `sample` is its test input: inputs by name, as the form accepts them. */
export type Example = { name: string; title: string; about: string; source: string; sample: Record<string, string> };

export const examples: Example[] = [
  { name: 'scale', title: 'Multiply numbers', about: 'Every element times a factor. The shortest step there is.', source: scale.replaceAll('STEPNAME', 'scale'), sample: { x: '[[1, 2.5, -3, 0]]' } },
  { name: 'limit', title: 'Keep only sure answers', about: 'Drops the rows of a detector whose score is below a limit.', source: limit, sample: { boxes: '[[10, 10, 60, 60], [20, 20, 80, 90], [5, 5, 9, 9]]', scores: '0.92, 0.31, 0.77' } },
  { name: 'classify', title: 'Name the likeliest classes', about: 'Softmax, the k highest, and their labels.', source: classes, sample: { scores: '[[0.1, 2.4, 1.1, -3]]' } },
  { name: 'invert', title: 'Turn a picture around', about: 'Mirrors the pixels of a picture and inverts them.', source: invert, sample: {} },
];
