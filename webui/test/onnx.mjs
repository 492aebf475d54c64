// Small networks for scenarios, written by hand: the wire format of protocol buffers, and as much of ONNX as they need.
const varint = (n) => { const bytes = []; for (let v = BigInt(n); ; v >>= 7n) { if (v < 128n) return Buffer.from([...bytes, Number(v)]); bytes.push(Number(v & 127n) | 128); } };
const number = (field, n) => Buffer.concat([varint(field << 3), varint(n)]);
const bytes = (field, body) => { const b = Buffer.from(body); return Buffer.concat([varint((field << 3) | 2), varint(b.length), b]); };
const FLOAT = 1;
const INT64 = 7;

const dimension = (d) => bytes(1, typeof d === 'string' ? bytes(2, d) : number(1, d));
const value = (name, type, dims) => Buffer.concat([bytes(1, name), bytes(2, bytes(1, Buffer.concat([number(1, type), bytes(2, Buffer.concat(dims.map(dimension)))])))]);
const tensor = (name, type, dims, raw) => Buffer.concat([...dims.map((d) => number(1, d)), number(2, type), bytes(8, name), bytes(9, raw)]);
const node = (op, inputs, outputs, name = '') => Buffer.concat([...inputs.map((i) => bytes(1, i)), ...outputs.map((o) => bytes(2, o)), ...(name ? [bytes(3, name)] : []), bytes(4, op)]);

function model(nodes, weights, inputs, outputs, metadata = {}) {
  const graph = Buffer.concat([...nodes.map((n) => bytes(1, n)), bytes(2, 'graph'), ...weights.map((w) => bytes(5, w)), ...inputs.map((i) => bytes(11, i)), ...outputs.map((o) => bytes(12, o))]);
  return Buffer.concat([number(1, 8), bytes(2, 'edgewise scenarios'), bytes(7, graph), bytes(8, number(2, 17)), ...Object.entries(metadata).map(([key, text]) => bytes(14, Buffer.concat([bytes(1, key), bytes(2, text)])))]);
}
const floats = (list) => Buffer.concat(list.map(float));
const float = (v) => { const b = Buffer.alloc(4); b.writeFloatLE(v); return b; };

/** Multiplies rows of four numbers x to y, or what they are called; with `more` it also answers them as they came. */
export function times(factor, more = false, x = 'x', y = 'y') {
  return model(
    [node('Mul', [x, 'k'], [y]), ...(more ? [node('Identity', [x], ['same'])] : [])],
    [tensor('k', FLOAT, [1], float(factor))],
    [value(x, FLOAT, ['n', 4])],
    [value(y, FLOAT, ['n', 4]), ...(more ? [value('same', FLOAT, ['n', 4])] : [])],
  );
}

/** Computes for long and answers its input, rows of 256 numbers: of a chain of `products` matrix products only the shape counts. */
export function heavy(products) {
  const side = 256;
  const column = Buffer.alloc(24);
  [-1n, BigInt(side), 1n].forEach((v, i) => column.writeBigInt64LE(v, 8 * i));
  const chain = Array.from({ length: products }, (_, i) => node('MatMul', [`t${i}`, 'none'], [`t${i + 1}`]));
  return model(
    [node('Reshape', ['x', 'column'], ['c']), node('MatMul', ['c', 'row'], ['t0']), ...chain, node('MatMul', [`t${products}`, 'last'], ['sums']), node('Shape', ['sums'], ['shape']), node('Reshape', ['x', 'shape'], ['y'])],
    [tensor('column', INT64, [3], column), tensor('row', FLOAT, [1, side], Buffer.alloc(4 * side)), tensor('none', FLOAT, [side, side], Buffer.alloc(4 * side * side)), tensor('last', FLOAT, [side, 1], Buffer.alloc(4 * side))],
    [value('x', FLOAT, ['n', side])], [value('y', FLOAT, ['n', side, 1])],
  );
}

/** Finds the same two boxes in every picture of 32 by 32 pixels, their corners moved by a factor. */
export function detector(factor) {
  return model(
    [node('Mul', ['corners', 'k'], ['boxes'])],
    [tensor('corners', FLOAT, [2, 4], floats([2, 2, 12, 12, 16, 8, 30, 28])), tensor('k', FLOAT, [1], float(factor))],
    [value('image', FLOAT, [1, 3, 32, 32])],
    [value('boxes', FLOAT, [2, 4])],
  );
}

/** Loads well and fails at its first run: four numbers a row do not make rows of seven. */
export function broken() {
  const shape = Buffer.alloc(16);
  shape.writeBigInt64LE(-1n, 0);
  shape.writeBigInt64LE(7n, 8);
  return model([node('Reshape', ['x', 'shape'], ['y'])], [tensor('shape', INT64, [2], shape)], [value('x', FLOAT, ['n', 4])], [value('y', FLOAT, ['m', 7])]);
}

/** Reads well and does not load: rows of four numbers cannot be multiplied by a matrix of three rows. */
export function unloadable() {
  return model([node('MatMul', ['x', 'k'], ['y'])], [tensor('k', FLOAT, [3, 3], floats([1, 0, 0, 0, 1, 0, 0, 0, 1]))], [value('x', FLOAT, ['n', 4])], [value('y', FLOAT, ['n', 3])]);
}

/** Says that its weights are in a file outside of its folder. */
export function reaching(path) {
  const entry = (key, text) => bytes(13, Buffer.concat([bytes(1, key), bytes(2, text)]));
  const weights = Buffer.concat([number(1, 1), number(2, FLOAT), bytes(8, 'k'), entry('location', path), entry('offset', '0'), entry('length', '4'), number(14, 1)]);
  return model([node('Mul', ['x', 'k'], ['y'])], [weights], [value('x', FLOAT, ['n', 4])], [value('y', FLOAT, ['n', 4])]);
}

/** A classifier of pictures by their colour; its file names the classes. The fourth, dark, is likeliest where no colour is. */
export function colours(names = "{0: 'red', 1: 'green', 2: 'blue', 3: 'dark'}") {
  return model(
    [node('GlobalAveragePool', ['image'], ['mean']), node('Flatten', ['mean'], ['colour']), node('MatMul', ['colour', 'k'], ['sums']), node('Add', ['sums', 'b'], ['scores'])],
    [tensor('k', FLOAT, [3, 4], floats([4, 0, 0, -4, 0, 4, 0, -4, 0, 0, 4, -4])), tensor('b', FLOAT, [4], floats([0, 0, 0, -4]))],
    [value('image', FLOAT, [1, 3, 64, 64])], [value('scores', FLOAT, [1, 4])], { names },
  );
}

/** What looks like an export of YOLO v8 for pictures of 64 x 64: whatever the picture, its outputs are these, given as shape and values. */
function exported(outputs, metadata) {
  const all = Object.entries(outputs);
  return model(
    [node('GlobalAveragePool', ['images'], ['mean']), node('Flatten', ['mean'], ['colour']), node('MatMul', ['colour', 'zero'], ['nothing']), ...all.map(([name]) => node('Add', ['nothing', `${name} itself`], [name]))],
    [tensor('zero', FLOAT, [3, 1], floats([0, 0, 0])), ...all.map(([name, { shape, values }]) => tensor(`${name} itself`, FLOAT, shape, floats(values)))],
    [value('images', FLOAT, [1, 3, 64, 64])], all.map(([name, { shape }]) => value(name, FLOAT, shape)), { stride: '32', imgsz: '[64, 64]', ...metadata },
  );
}
const places = 84; // 8 x 8, 4 x 4 and 2 x 2 cells
/** The output of a head of `rows` numbers a place, which finds something in some places. */
const head = (rows, found) => ({ shape: [1, rows, places], values: Array.from({ length: rows * places }, (_, i) => found[i % places]?.[Math.floor(i / places)] ?? 0) });

/** Finds a cat in the middle of each picture and a dog below it. */
export function yolo() {
  const found = { 5: [32, 32, 32, 16, 0.9, 0.1], 40: [32, 34, 32, 16, 0.6, 0.1], 70: [16, 52, 16, 8, 0.2, 0.8] };
  return exported({ output0: head(6, found) }, { task: 'detect', names: "{0: 'cat', 1: 'dog'}" });
}

/** Finds one thing in the middle, whose mask is its left half. */
export function masks() {
  const planes = Array.from({ length: 2 * 16 * 16 }, (_, i) => (i < 256 && i % 16 < 8 ? 1 : -1));
  return exported({ output0: head(7, { 5: [32, 32, 32, 16, 0.9, 1, 0] }), output1: { shape: [1, 2, 16, 16], values: planes } }, { task: 'segment', names: "{0: 'cat'}" });
}

/** Finds one thing in the middle with two key points, of which it is sure of the first. */
export function pose() {
  return exported({ output0: head(11, { 5: [32, 32, 32, 16, 0.9, 24, 32, 0.9, 40, 32, 0.1] }) }, { task: 'pose', names: "{0: 'hand'}", kpt_shape: '[2, 3]' });
}

/** Answers four numbers x with a tone that is as loud as the first of them. */
export function tone() {
  const wave = Array.from({ length: 4000 }, (_, i) => (i < 1000 ? Math.sin(i / 9) : 0));
  return model([node('MatMul', ['x', 'k'], ['audio'])], [tensor('k', FLOAT, [4, 1000], floats(wave))], [value('x', FLOAT, [1, 4])], [value('audio', FLOAT, [1, 1000])]);
}

/** A long chain of operations, named as exporters name those of blocks within stages, or not at all. */
export function chain(n, named) {
  const nodes = Array.from({ length: n }, (_, i) => node('Add', [i ? `t${i}` : 'x', 'k'], [i === n - 1 ? 'y' : `t${i + 1}`], named ? `/stage${Math.floor(i / 200)}/block${Math.floor(i / 10) % 20}/add${i}` : ''));
  return model(nodes, [tensor('k', FLOAT, [1], float(1))], [value('x', FLOAT, ['n', 4])], [value('y', FLOAT, ['n', 4])]);
}

/** Doubles rows of four numbers x to y, m times in sequence: as long as a request wants. */
export function repeated() {
  const BOOL = 9;
  const GRAPH = 5;
  const body = Buffer.concat([
    bytes(1, node('Identity', ['go'], ['on'])), bytes(1, node('Mul', ['before', 'k'], ['after'])), bytes(2, 'body'),
    ...[value('i', INT64, []), value('go', BOOL, []), value('before', FLOAT, ['n', 4])].map((v) => bytes(11, v)),
    ...[value('on', BOOL, []), value('after', FLOAT, ['n', 4])].map((v) => bytes(12, v)),
  ]);
  const loop = Buffer.concat([node('Loop', ['m', '', 'x'], ['y']), bytes(5, Buffer.concat([bytes(1, 'body'), bytes(6, body), number(20, GRAPH)]))]);
  return model([loop], [tensor('k', FLOAT, [1], float(2))], [value('m', INT64, [1]), value('x', FLOAT, ['n', 4])], [value('y', FLOAT, ['n', 4])]);
}

/** A copy of a network in which a tensor, the only one of so many FP32 numbers, is changed in place. */
export function changed(network, count, change) {
  const head = Buffer.concat([varint((9 << 3) | 2), varint(4 * count)]);
  const at = network.indexOf(head) + head.length;
  if (at < head.length || network.indexOf(head, at) >= 0) throw new Error(`not one tensor of ${count} numbers`);
  const values = new Float32Array(new Uint8Array(network.subarray(at, at + 4 * count)).buffer);
  change(values);
  return Buffer.concat([network.subarray(0, at), Buffer.from(values.buffer), network.subarray(at + 4 * count)]);
}
