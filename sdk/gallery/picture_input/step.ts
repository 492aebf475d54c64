// Pictures in, the input of a model out: the middle cut out, fitted in with their proportions, squeezed in, or as lines of text. map leads back.

import { List, Outputs, Picture, Span, at, choiceParameter, describe, fail, imageNormalize, intParameter, lastError, readPicture, run, tripleParameter } from "./edgewise";
export { edgewise_step_v1, edgewise_alloc, edgewise_reset } from "./edgewise";

const description = `{
  "name": "picture_input", "version": "1.0.0", "description": "pictures as the input of a model",
  "inputs": [{"name": "image", "datatype": "BYTES", "shape": [-1], "description": "JPEG, PNG or WebP files"}],
  "outputs": [
    {"name": "tensor", "datatype": "FP32", "shape": [-1, -1, -1, -1]},
    {"name": "bytes", "datatype": "UINT8", "shape": [-1, -1, -1, -1], "description": "the same as bytes, with type uint8"},
    {"name": "map", "datatype": "FP32", "shape": [-1, 6], "description": "scale x, scale y, pad x, pad y, width, height of each picture: x in the tensor is x in the picture times scale x plus pad x"}],
  "parameters": [
    {"name": "fit", "default": "crop", "description": "one of crop, letterbox, stretch, line. crop: the shorter side to resize, the middle cut out; line: to the height, as wide as the picture then is"},
    {"name": "width", "default": "224", "description": "of the tensor; 0 with line: as wide as the picture"},
    {"name": "height", "default": "224"},
    {"name": "resize", "default": "256", "description": "pixels of the shorter side before the middle is cut out"},
    {"name": "fill", "default": "114", "description": "grey beside the picture, 0 to 255"},
    {"name": "mean", "default": "123.675,116.28,103.53", "description": "of each channel, 0 to 255"},
    {"name": "std", "default": "58.395,57.12,57.375", "description": "of each channel, 0 to 255"},
    {"name": "layout", "default": "nchw", "description": "one of nchw, nhwc"},
    {"name": "channels", "default": "rgb", "description": "one of rgb, bgr"},
    {"name": "type", "default": "fp32", "description": "one of fp32, uint8: whether tensor or bytes has the pictures"}]
}`;

const maxSide = 4096;

class Wanted {
  constructor(
    public fit: string, public width: i32, public height: i32, public resize: i32, public fill: u8,
    public mean: StaticArray<f32>, public scale: StaticArray<f32>, public nhwc: bool, public bgr: bool, public bytes: bool,
  ) {}
}

function wanted(): Wanted | null {
  const fit = choiceParameter("fit", ["crop", "letterbox", "stretch", "line"]), layout = choiceParameter("layout", ["nchw", "nhwc"]);
  const channels = choiceParameter("channels", ["rgb", "bgr"]), type = choiceParameter("type", ["fp32", "uint8"]);
  const width = intParameter("width", 224, 0, maxSide), height = intParameter("height", 224, 1, maxSide);
  const resize = intParameter("resize", 256, 1, maxSide), fill = intParameter("fill", 114, 0, 255);
  const mean = tripleParameter("mean", [123.675, 116.28, 103.53]), std = tripleParameter("std", [58.395, 57.12, 57.375]);
  if (!fit.ok || !layout.ok || !channels.ok || !type.ok || !width.ok || !height.ok || !resize.ok || !fill.ok || !mean.ok || !std.ok) return null;
  if (width.value == 0 && fit.value != "line") {
    fail('parameter "width" is 0: want 1 or more');
    return null;
  }
  const scale = new StaticArray<f32>(3), size = max(width.value, height.value);
  for (let c = 0; c < 3; c++) {
    if (!(std.value[c] > 0)) {
      fail('parameter "std": want three numbers above 0');
      return null;
    }
    scale[c] = 1 / std.value[c];
  }
  return new Wanted(fit.value, <i32>width.value, <i32>height.value, <i32>max(resize.value, fit.value == "crop" ? size : 1), <u8>fill.value,
    mean.value, scale, layout.value == "nhwc", channels.value == "bgr", type.value == "uint8");
}

// What a side becomes at a scale.
function side(n: i32, scale: f64, most: i32): i32 { return <i32>max<f64>(1, min<f64>(<f64>most, Math.floor(<f64>n * scale + 0.5))); }

// The size that a picture is scaled to before it is laid into the tensor.
function scaled(p: Picture, w: Wanted, width: i32): StaticArray<i32> {
  const x = <f64>width / <f64>p.width, y = <f64>w.height / <f64>p.height;
  if (w.fit == "stretch") return [width, w.height];
  if (w.fit == "crop") {
    const s = <f64>w.resize / <f64>min(p.width, p.height);
    return [max(width, side(p.width, s, 2 * maxSide)), max(w.height, side(p.height, s, 2 * maxSide))];
  }
  const s = min(x, y);
  return [side(p.width, s, width), side(p.height, s, w.height)];
}

// Copies what lies in both from one picture into another, whose pixel (x, y) is the first one's (0, 0).
function lay(from: Picture, to: Picture, x: i32, y: i32): void {
  const left = max(0, x), columns = min(to.width, x + from.width) - left;
  for (let row = max(0, y); row < min(to.height, y + from.height); row++) {
    const source = 3 * (<usize>(row - y) * from.width + (left - x)), target = 3 * (<usize>row * to.width + left);
    memory.copy(changetype<usize>(to.pixels) + target, changetype<usize>(from.pixels) + source, 3 * <usize>columns);
  }
}

// Makes one picture of the tensor and its row of map. False after fail.
function place(file: Span, w: Wanted, width: i32, tensor: usize, bytes: usize, map: usize): bool {
  const p = readPicture(file);
  if (p == null) return false;
  const size = scaled(p, w, width), made = p.resized(size[0], size[1]);
  if (made == null) return false;
  const canvas = new Picture(width, w.height, new StaticArray<u8>(3 * width * w.height));
  memory.fill(changetype<usize>(canvas.pixels), w.fill, canvas.pixels.length);
  const x = w.fit == "line" ? 0 : <i32>Math.floor(<f64>(width - size[0]) / 2), y = <i32>Math.floor(<f64>(w.height - size[1]) / 2);
  lay(made, canvas, x, y);
  const row: StaticArray<f32> = [<f32>size[0] / <f32>p.width, <f32>size[1] / <f32>p.height, <f32>x, <f32>y, <f32>p.width, <f32>p.height];
  memory.copy(map, changetype<usize>(row), 24);
  if (w.bytes) {
    order(canvas, w, bytes);
    return true;
  }
  const fp32 = 11, flags = (w.nhwc ? 1 : 0) | (w.bgr ? 2 : 0);
  if (w.bgr) w = swapped(w);
  if (imageNormalize(changetype<usize>(canvas.pixels), width, w.height, 3, tensor, fp32, flags, changetype<usize>(w.mean), changetype<usize>(w.scale)) >= 0) return true;
  fail("the picture cannot be normalised: " + lastError());
  return false;
}

// mean and std are those of the tensor's channels; the kernel wants them in the order of the picture's.
function swapped(w: Wanted): Wanted {
  const mean: StaticArray<f32> = [w.mean[2], w.mean[1], w.mean[0]], scale: StaticArray<f32> = [w.scale[2], w.scale[1], w.scale[0]];
  return new Wanted(w.fit, w.width, w.height, w.resize, w.fill, mean, scale, w.nhwc, w.bgr, w.bytes);
}

// Writes bytes in the tensor's order.
function order(p: Picture, w: Wanted, to: usize): void {
  const n = p.width * p.height;
  for (let i = 0; i < n; i++) {
    for (let c = 0; c < 3; c++) store<u8>(to + (w.nhwc ? 3 * i + c : c * n + i), p.pixels[3 * i + (w.bgr ? 2 - c : c)]);
  }
}

// The width of the tensor: with line and no width, that of the only picture at this height.
function widthOf(files: Span[], w: Wanted): i32 {
  if (w.width > 0) return w.width;
  if (files.length != 1) {
    fail("lines as wide as their picture are read one at a time: give one picture, or the parameter width");
    return 0;
  }
  const p = readPicture(files[0]);
  return p == null ? 0 : side(p.width, <f64>w.height / <f64>p.height, maxSide);
}

function process(inputs: List): Outputs | null {
  const files = inputs.getBytes("image"), w = wanted();
  if (files == null || w == null) return null;
  const n = files.length, width = widthOf(files, w);
  if (width == 0) return null;
  const each = 3 * width * w.height, many = <i64>n * each;
  if (many > 1 << 26) {
    fail(`${n.toString()} pictures of ${width.toString()}x${w.height.toString()} pixels are more than one request takes`);
    return null;
  }
  const tensor = new StaticArray<f32>(w.bytes ? 0 : <i32>many), bytes = new StaticArray<u8>(w.bytes ? <i32>many : 0), map = new StaticArray<f32>(6 * n);
  for (let i = 0; i < n; i++) {
    if (!place(files[i], w, width, changetype<usize>(tensor) + 4 * <usize>(i * each), changetype<usize>(bytes) + <usize>(i * each), changetype<usize>(map) + 24 * i)) return null;
  }
  const sides: i64[] = w.nhwc ? [w.height, width, 3] : [3, w.height, width];
  const full: i64[] = [n, sides[0], sides[1], sides[2]], none: i64[] = [0, sides[0], sides[1], sides[2]];
  return new Outputs().add<f32>("tensor", w.bytes ? none : full, tensor).add<u8>("bytes", w.bytes ? full : none, bytes).add<f32>("map", [n, 6], map);
}

export function edgewise_process(inputs: usize): usize { return run(process(at(inputs))); }
export function edgewise_describe(): usize { return describe(description); }
