// The exports and imports of the ABI.

import { List, Outputs } from "./tensor";

// @ts-ignore: decorator
@external("edgewise_v1", "log") declare function importLog(level: i32, text: usize, length: u32): void;
// @ts-ignore: decorator
@external("edgewise_v1", "fail") declare function importFail(text: usize, length: u32): void;
// @ts-ignore: decorator
@external("edgewise_v1", "parameter") declare function importParameter(name: usize, length: u32, dst: usize, cap: u32): i32;
// @ts-ignore: decorator
@external("edgewise_v1", "infer") declare function importInfer(model: usize, length: u32, inputs: usize): usize;
// @ts-ignore: decorator
@external("edgewise_v1", "emit") declare function importEmit(outputs: usize): i32;
// @ts-ignore: decorator
@external("edgewise_v1", "last_error") declare function importLastError(dst: usize, cap: u32): i32;

// What lives until the request ends: blocks for the box, and lists that were made.
let blocks: usize[] = [];
let lists: Outputs[] = [];
let encoded: StaticArray<u8>[] = [];

export function edgewise_step_v1(): void {}

// Memory for the box, at a multiple of align.
export function edgewise_alloc(size: u32, align: u32): usize {
  const block = heap.alloc(<usize>size + align);
  blocks.push(block);
  const mask: usize = max<usize>(align, 1) - 1;
  return (block + mask) & ~mask;
}

export function edgewise_reset(): void {
  for (let i = 0; i < blocks.length; i++) heap.free(blocks[i]);
  for (let i = 0; i < lists.length; i++) lists[i].free();
  blocks = [];
  lists = [];
  encoded = [];
}

// The list at a pointer from the box.
export function at(pointer: usize): List { return new List(pointer); }

function keep(list: Outputs): usize {
  const block = list.encode();
  lists.push(list);
  encoded.push(block);
  return changetype<usize>(block);
}

// Answers edgewise_process: null after fail.
export function run(outputs: Outputs | null): usize { return outputs == null ? 0 : keep(outputs); }

// Answers edgewise_describe with a JSON document.
export function describe(json: string): usize {
  const size = <u32>String.UTF8.byteLength(json), block = edgewise_alloc(4 + size, 8);
  store<u32>(block, size);
  String.UTF8.encodeUnsafe(changetype<usize>(json), json.length, block + 4);
  return block;
}

// Says why the step fails; process then returns null. The last call counts.
export function fail(message: string): void {
  const text = String.UTF8.encode(message);
  importFail(changetype<usize>(text), text.byteLength);
}

export const enum Level { Debug, Info, Warning, Error }

// Writes a line to the step's log. The box limits their rate and their length.
export function log(level: Level, message: string): void {
  const text = String.UTF8.encode(message);
  importLog(level, changetype<usize>(text), text.byteLength);
}

// The text of a parameter of the request, else of the model's configuration; null when there is none.
export function parameter(name: string): string | null {
  const text = String.UTF8.encode(name), length = importParameter(changetype<usize>(text), text.byteLength, 0, 0);
  if (length < 0) return null;
  const value = new ArrayBuffer(length);
  importParameter(changetype<usize>(text), text.byteLength, changetype<usize>(value), length);
  return String.UTF8.decode(value);
}

// What a parameter reader returns: ok is false after fail.
export class Parsed<T> { constructor(public ok: bool, public value: T) {} }

// A parameter as a whole number within low and high, fallback where it is not set.
export function intParameter(name: string, fallback: i64, low: i64, high: i64): Parsed<i64> {
  const text = parameter(name);
  if (text == null) return new Parsed<i64>(true, fallback);
  const value = I64.parseInt(text);
  if (value.toString() == text && value >= low && value <= high) return new Parsed<i64>(true, value);
  fail(`parameter "${name}" is "${text}": want a whole number from ${low.toString()} to ${high.toString()}`);
  return new Parsed<i64>(false, fallback);
}

// A parameter as a number within low and high, fallback where it is not set.
export function numberParameter(name: string, fallback: f64, low: f64, high: f64): Parsed<f64> {
  const text = parameter(name);
  if (text == null) return new Parsed<f64>(true, fallback);
  const value = F64.parseFloat(text);
  if (value >= low && value <= high) return new Parsed<f64>(true, value);
  fail(`parameter "${name}" is "${text}": want a number from ${low.toString()} to ${high.toString()}`);
  return new Parsed<f64>(false, fallback);
}

// A parameter that is one of several words; the first stands where it is not set.
export function choiceParameter(name: string, words: string[]): Parsed<string> {
  const text = parameter(name);
  if (text == null) return new Parsed<string>(true, words[0]);
  if (words.includes(text)) return new Parsed<string>(true, text);
  fail(`parameter "${name}" is "${text}": want one of ${words.join(", ")}`);
  return new Parsed<string>(false, words[0]);
}

// Runs another model on inputs, through that model's own queue. The answer is read in place; null when it failed: see lastError.
export function infer(model: string, inputs: Outputs): List | null {
  const text = String.UTF8.encode(model);
  const pointer = importInfer(changetype<usize>(text), text.byteLength, keep(inputs));
  return pointer == 0 ? null : new List(pointer);
}

// Sends outputs as a response of a decoupled model, and lets them go. It waits while the client reads slowly. False when it did not work: see lastError.
export function emit(outputs: Outputs): bool {
  const block = outputs.encode(), sent = importEmit(changetype<usize>(block)) == 0;
  outputs.free();
  return sent;
}

// The reason of the last import that failed in this request, "" when none did.
export function lastError(): string {
  const length = importLastError(0, 0);
  if (length <= 0) return "";
  const text = new ArrayBuffer(length);
  importLastError(changetype<usize>(text), length);
  return String.UTF8.decode(text);
}

// What the compiler calls for a failed check: the reason goes to the log, and the step stops.
export function abort(message: string | null, file: string | null, line: u32, column: u32): void {
  const text = (message == null ? "abort" : message) + " in " + (file == null ? "?" : file) + ":" + line.toString() + ":" + column.toString();
  log(Level.Error, text);
  fail(text); // the box adds it to the error of the trap
  unreachable();
}
