// A text in, its words one by one: an example of a step that streams.

import { List, Outputs, at, describe, emit, fail, lastError, run } from "./edgewise";
export { edgewise_step_v1, edgewise_alloc, edgewise_reset } from "./edgewise";

const description = `{
  "name": "words", "version": "1.0.0", "description": "a text as a stream of its words, each with the spaces behind it", "decoupled": true,
  "inputs": [{"name": "text", "datatype": "BYTES", "shape": [1]}],
  "outputs": [{"name": "text", "datatype": "BYTES", "shape": [1]}]
}`;

function process(inputs: List): Outputs | null {
  const texts = inputs.getBytes("text");
  if (texts == null) return null;
  const text = texts[0].toString();
  for (let begin = 0; begin < text.length; ) {
    let end = begin;
    while (end < text.length && text.charCodeAt(end) != 32) end++;
    while (end < text.length && text.charCodeAt(end) == 32) end++;
    if (!emit(new Outputs().addStrings("text", [1], [text.substring(begin, end)]))) {
      fail(lastError());
      return null;
    }
    begin = end;
  }
  return new Outputs(); // nothing but the end
}

export function edgewise_process(inputs: usize): usize { return run(process(at(inputs))); }
export function edgewise_describe(): usize { return describe(description); }
