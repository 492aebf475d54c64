// Small networks for scenarios, written by hand: the wire format of protocol buffers, and as much of ONNX as they need.
const varint = (n) => { const bytes = []; for (let v = BigInt(n); ; v >>= 7n) { if (v < 128n) return Buffer.from([...bytes, Number(v)]); bytes.push(Number(v & 127n) | 128); } };
const number = (field, n) => Buffer.concat([varint(field << 3), varint(n)]);
const bytes = (field, body) => { const b = Buffer.from(body); return Buffer.concat([varint((field << 3) | 2), varint(b.length), b]); };
const FLOAT = 1;
const INT64 = 7;

const dimension = (d) => bytes(1, typeof d === 'string' ? bytes(2, d) : number(1, d));
const value = (name, type, dims) => Buffer.concat([bytes(1, name), bytes(2, bytes(1, Buffer.concat([number(1, type), bytes(2, Buffer.concat(dims.map(dimension)))])))]);
const tensor = (name, type, dims, raw) => Buffer.concat([...dims.map((d) => number(1, d)), number(2, type), bytes(8, name), bytes(9, raw)]);
const node = (op, inputs, outputs) => Buffer.concat([...inputs.map((i) => bytes(1, i)), ...outputs.map((o) => bytes(2, o)), bytes(4, op)]);

function model(nodes, weights, inputs, outputs) {
  const graph = Buffer.concat([...nodes.map((n) => bytes(1, n)), bytes(2, 'graph'), ...weights.map((w) => bytes(5, w)), ...inputs.map((i) => bytes(11, i)), ...outputs.map((o) => bytes(12, o))]);
  return Buffer.concat([number(1, 8), bytes(2, 'edgewise scenarios'), bytes(7, graph), bytes(8, number(2, 17))]);
}
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

/** Loads well and fails at its first run: four numbers a row do not make rows of seven. */
export function broken() {
  const shape = Buffer.alloc(16);
  shape.writeBigInt64LE(-1n, 0);
  shape.writeBigInt64LE(7n, 8);
  return model([node('Reshape', ['x', 'shape'], ['y'])], [tensor('shape', INT64, [2], shape)], [value('x', FLOAT, ['n', 4])], [value('y', FLOAT, ['m', 7])]);
}

/** Says that its weights are in a file outside of its folder. */
export function reaching(path) {
  const entry = (key, text) => bytes(13, Buffer.concat([bytes(1, key), bytes(2, text)]));
  const weights = Buffer.concat([number(1, 1), number(2, FLOAT), bytes(8, 'k'), entry('location', path), entry('offset', '0'), entry('length', '4'), number(14, 1)]);
  return model([node('Mul', ['x', 'k'], ['y'])], [weights], [value('x', FLOAT, ['n', 4])], [value('y', FLOAT, ['n', 4])]);
}
