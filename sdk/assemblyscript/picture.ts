// Pictures: the pixels of a file, what the parameters want of them, and places of a model's input back to the picture.

import { fail, lastError, Parsed, parameter } from "./host";
import { imageDecode, imageInfo, imageResize } from "./kernel";
import { DataType, List, Span } from "./tensor";

// The bound of a picture.
export const MAX_PIXELS: u32 = 16 << 20;

// Pixels of 8 bits: red, green, blue, interleaved.
export class Picture {
  constructor(public width: i32, public height: i32, public pixels: StaticArray<u8>) {}

  // The picture at another size: the mean of what a new pixel covers where it shrinks, bilinear where it grows. Null after fail.
  resized(width: i32, height: i32): Picture | null {
    if (width == this.width && height == this.height) return this;
    const area = 2, bilinear = 1, to = new StaticArray<u8>(3 * width * height);
    const mode = width < this.width || height < this.height ? area : bilinear;
    if (imageResize(changetype<usize>(this.pixels), this.width, this.height, changetype<usize>(to), width, height, 3, mode) >= 0) return new Picture(width, height, to);
    fail("the picture cannot be resized: " + lastError());
    return null;
  }
}

// Decodes a picture's file and turns it upright. Null after fail.
export function readPicture(file: Span): Picture | null {
  const upright = 1, info = new StaticArray<u32>(4);
  if (imageInfo(file.at, file.length, upright, changetype<usize>(info)) < 0) {
    fail("the picture cannot be read: " + lastError());
    return null;
  }
  const pixels = <u64>info[0] * info[1];
  if (pixels == 0 || pixels > MAX_PIXELS) {
    fail(`the picture has ${info[0].toString()}x${info[1].toString()} pixels: at most ${MAX_PIXELS.toString()} are allowed`);
    return null;
  }
  const bytes = new StaticArray<u8>(<i32>pixels * 3);
  if (imageDecode(file.at, file.length, upright, 3, changetype<usize>(bytes), bytes.length) >= 0) return new Picture(info[0], info[1], bytes);
  fail("the picture cannot be read: " + lastError());
  return null;
}

// A parameter of three numbers separated by commas, fallback where it is not set.
export function tripleParameter(name: string, fallback: StaticArray<f32>): Parsed<StaticArray<f32>> {
  const text = parameter(name);
  if (text == null) return new Parsed<StaticArray<f32>>(true, fallback);
  const words = text.split(","), numbers = new StaticArray<f32>(3);
  let good = words.length == 3;
  for (let i = 0; good && i < 3; i++) {
    numbers[i] = <f32>F64.parseFloat(words[i]);
    good = isFinite(numbers[i]);
  }
  if (!good) fail(`parameter "${name}" is "${text}": want three numbers separated by commas`);
  return new Parsed<StaticArray<f32>>(good, numbers);
}

// Where a picture lies in a model's input: x there is x in the picture times scaleX plus padX. A tensor "map" has a row of
// these six numbers for each picture.
export class Place {
  scaleX: f32 = 1;
  scaleY: f32 = 1;
  padX: f32 = 0;
  padY: f32 = 0;
  width: f32 = 1e9;
  height: f32 = 1e9;

  // A coordinate of the model's input in the picture's pixels, within the picture.
  x(v: f32): f32 { return within((v - this.padX) / this.scaleX, this.width); }
  y(v: f32): f32 { return within((v - this.padY) / this.scaleY, this.height); }
}

function within(v: f32, most: f32): f32 { return v < 0 ? 0 : v > most ? most : v; }

// Reads the first row of the input "map"; without one, places stay as they are. Null after fail.
export function readPlace(inputs: List): Place | null {
  const t = inputs.find("map"), p = new Place();
  if (t == null) return p;
  if (t.type != DataType.FP32 || t.size < 24) {
    fail('input "map": want FP32 [1, 6]');
    return null;
  }
  p.scaleX = load<f32>(t.data);
  p.scaleY = load<f32>(t.data, 4);
  p.padX = load<f32>(t.data, 8);
  p.padY = load<f32>(t.data, 12);
  p.width = load<f32>(t.data, 16);
  p.height = load<f32>(t.data, 20);
  if (p.scaleX > 0 && p.scaleY > 0) return p;
  fail('input "map" has a scale that is not above 0');
  return null;
}
