// A sound at another rate, by a windowed sinc: 24 zero crossings a side, a Kaiser window, about 90 dB of stop band. All SDKs
// compute it in the same order, so that their answers are the same to the bit.

const ZEROS: f64 = 24;
const BETA: f64 = 8.6;
const BAND: f64 = 0.95;
// Fractions of a sample of the lower rate at which an output sample may lie; others are rounded.
const PHASES: u64 = 4096;

// The sine of pi * r is r times this polynomial of r * r, for r from -0.5 to 0.5.
const sine: StaticArray<f64> = [
  3.141592653589793, -5.16771278004997, 2.5501640398773455, -0.5992645293207921, 0.08214588661112823, -0.0073704309457143504,
  0.00046630280576761255, -2.1915353447830217e-05, 7.952054001475513e-07, -2.2948428997269873e-08, 5.392664662608129e-10,
];

// 1 / (k!)^2 of every other k, from the least on.
const besselEven: StaticArray<f64> = [
  1.0, 0.25, 0.001736111111111111, 1.9290123456790124e-06, 6.151187326782565e-10, 7.594058428126623e-14, 4.358389823304995e-18,
  1.3157800456783586e-22, 2.2843403570804838e-27, 2.4395962632753253e-32, 1.6894710964510564e-37,
];
const besselOdd: StaticArray<f64> = [
  1.0, 0.027777777777777776, 6.944444444444444e-05, 3.936759889140842e-08, 7.594058428126624e-12, 6.276081345559193e-16,
  2.5789288895295828e-20, 5.8479113141260385e-25, 7.904291893012054e-30, 6.757884385804225e-35, 3.8310002187098785e-40,
];

// The modified Bessel function of the first kind of order zero, by its power series; x is at most BETA.
function bessel(x: f64): f64 {
  const t = x * x / 4, u = t * t;
  let even = besselEven[10], odd = besselOdd[10];
  for (let k = 9; k >= 0; k--) {
    even = even * u + unchecked(besselEven[k]);
    odd = odd * u + unchecked(besselOdd[k]);
  }
  return even + t * odd;
}

// The sine of pi * t over pi * t; t is less than 2^31 to both sides.
function sinc(t: f64): f64 {
  if (t == 0) return 1;
  const whole = Math.floor(t + 0.5), r = t - whole, s = r * r;
  let p = sine[10];
  for (let k = 9; k >= 0; k--) p = p * s + unchecked(sine[k]);
  return (<i32>whole & 1 ? -r * p : r * p) / (Math.PI * t);
}

// Writes the taps of one phase, 2 * half which sum to 1: the value at offset after the half-th of them.
function phase(taps: usize, half: i32, offset: f64, cutoff: f64, window: f64): void {
  let sum: f64 = 0;
  for (let k = 0; k < 2 * half; k++) {
    const x = <f64>(k - half + 1) - offset, at = x / <f64>half;
    const kaiser = at < -1 || at > 1 ? 0 : bessel(BETA * Math.sqrt(1 - at * at)) / window;
    const tap = sinc(cutoff * x) * kaiser;
    store<f32>(taps + (<usize>k << 2), <f32>tap);
    sum += tap;
  }
  for (let k = 0; k < 2 * half; k++) {
    const at = taps + (<usize>k << 2);
    store<f32>(at, <f32>(<f64>load<f32>(at) / sum));
  }
}

// The product of four pairs, of the numbers at a and at b.
// @ts-ignore: decorator
@inline function products(a: usize, b: usize): v128 { return f32x4.mul(v128.load(a), v128.load(b)); }

// The sum of the products of n pairs.
function dot(a: usize, b: usize, n: i32): f32 {
  let s0 = f32x4.splat(0), s1 = s0, s2 = s0, s3 = s0;
  for (; n >= 32; n -= 32, a += 128, b += 128) {
    s0 = f32x4.add(f32x4.add(s0, products(a, b)), products(a + 64, b + 64));
    s1 = f32x4.add(f32x4.add(s1, products(a + 16, b + 16)), products(a + 80, b + 80));
    s2 = f32x4.add(f32x4.add(s2, products(a + 32, b + 32)), products(a + 96, b + 96));
    s3 = f32x4.add(f32x4.add(s3, products(a + 48, b + 48)), products(a + 112, b + 112));
  }
  for (; n >= 4; n -= 4, a += 16, b += 16) s0 = f32x4.add(s0, products(a, b));
  const all = f32x4.add(f32x4.add(s0, s1), f32x4.add(s2, s3));
  let total = f32x4.extract_lane(all, 0) + f32x4.extract_lane(all, 1) + f32x4.extract_lane(all, 2) + f32x4.extract_lane(all, 3);
  for (; n > 0; n--, a += 4, b += 4) total += load<f32>(a) * load<f32>(b);
  return total;
}

// How many phases there are between two rates: the taps of all of them stay below a megabyte.
function phasesOf(from: u32, to: u32): u32 {
  let a = from, b = to;
  while (b != 0) {
    const rest = a % b;
    a = b;
    b = rest;
  }
  return min<u32>(to / a, <u32>(PHASES * min<u32>(from, to) / from));
}

// The taps of all phases, half on each side.
function filterBank(phases: i32, half: i32, cutoff: f64): StaticArray<f32> {
  const size = 2 * half, bank = new StaticArray<f32>((phases + 1) * size), window = bessel(BETA);
  for (let p = 0; p <= phases / 2; p++) {
    phase(changetype<usize>(bank) + (<usize>(p * size) << 2), half, <f64>p / <f64>phases, cutoff, window);
    // The last phases are the first ones, the other way round.
    for (let k = 0; k < size; k++) bank[(phases - p) * size + size - 1 - k] = bank[p * size + k];
  }
  return bank;
}

// The samples at another rate, of which there are count. Beyond both ends there is silence.
export function resampled(samples: StaticArray<f32>, from: u32, rate: u32, count: i32): StaticArray<f32> {
  const phases = phasesOf(from, rate), cutoff = BAND * min<f64>(1, <f64>rate / <f64>from), half = <i32>Math.ceil(ZEROS / cutoff);
  const bank = filterBank(phases, half, cutoff), to = new StaticArray<f32>(count);
  const taps = changetype<usize>(bank), values = changetype<usize>(samples);
  for (let i = 0; i < count; i++) {
    const position = <u64>i * from, part = position % rate, first = <i64>(position / rate) - half + 1;
    const low = max<i64>(0, -first), high = min<i64>(2 * half, <i64>samples.length - first);
    if (low >= high) continue;
    const row = (part * phases + rate / 2) / rate * 2 * half;
    unchecked(to[i] = dot(taps + (<usize>(row + low) << 2), values + (<usize>(first + low) << 2), <i32>(high - low)));
  }
  return to;
}
