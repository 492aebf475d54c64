// A WAV file as samples from -1 to 1, its channels mixed into one, and frames of them.

import { fail } from "./host";
import { resampled } from "./resample";
import { Span } from "./tensor";

// The bounds of a sound's format: samples a second, and channels.
export const MIN_SAMPLE_RATE: u32 = 1000;
export const MAX_SAMPLE_RATE: u32 = 768000;
export const MAX_CHANNELS: u32 = 64;

// One channel of samples from -1 to 1; rate is in samples a second.
export class Sound {
  constructor(public rate: u32, public samples: StaticArray<f32>) {}

  // The sound at another rate; null after fail. Beyond both ends there is silence. limit is the most samples, of four
  // bytes each, that it may make.
  resample(rate: u32, limit: u32): Sound | null {
    if (!checkRate("the sound has", this.rate) || !checkRate("the sound is brought to", rate)) return null;
    const count = (<u64>this.samples.length * rate + this.rate - 1) / this.rate;
    if (count > limit) {
      fail(`the sound has ${count.toString()} samples at ${rate.toString()} a second: at most ${limit.toString()} are taken`);
      return null;
    }
    return this.rate == rate ? this : new Sound(rate, resampled(this.samples, this.rate, rate, <i32>count));
  }

  // Frames of width samples, one every hop samples, of the sound with before and after samples of silence around it: as
  // many whole ones as there are, behind one another; null after fail. All of them have at most limit samples.
  frames(width: u32, hop: u32, before: u32, after: u32, limit: u32): StaticArray<f32> | null {
    if (width == 0 || hop == 0) {
      fail(`frames of ${width.toString()} samples, one every ${hop.toString()}: want 1 or more`);
      return null;
    }
    const length = <i64>this.samples.length, all = <u64>before + <u64>length + after;
    const frames: u64 = all < width ? 0 : 1 + (all - width) / hop;
    if (frames > limit / width) {
      fail(`${frames.toString()} frames of ${width.toString()} samples: at most ${limit.toString()} samples are taken`);
      return null;
    }
    const to = new StaticArray<f32>(<i32>(frames * width)), at = changetype<usize>(to), samples = changetype<usize>(this.samples);
    for (let i: u64 = 0; i < frames; i++) {
      const from = <i64>(i * hop) - before, low = max<i64>(0, -from), high = min<i64>(width, length - from);
      if (low >= high) continue;
      memory.copy(at + ((<usize>(i * width + low)) << 2), samples + ((<usize>(from + low)) << 2), (<usize>(high - low)) << 2);
    }
    return to;
  }
}

// The fmt chunk of a WAV file; code is 1 for integers, 3 for floats.
class Wav {
  constructor(public code: u32, public channels: u32, public rate: u32, public bits: u32) {}
}

function checkRate(what: string, rate: u32): bool {
  if (rate >= MIN_SAMPLE_RATE && rate <= MAX_SAMPLE_RATE) return true;
  fail(`${what} ${rate.toString()} samples a second: want ${MIN_SAMPLE_RATE.toString()} to ${MAX_SAMPLE_RATE.toString()}`);
  return false;
}

// Four letters as they lie in a file.
// @ts-ignore: decorator
@inline function letters(a: u32, b: u32, c: u32, d: u32): u32 { return a | b << 8 | c << 16 | d << 24; }
const RIFF = letters(0x52, 0x49, 0x46, 0x46);
const WAVE = letters(0x57, 0x41, 0x56, 0x45);
const FMT = letters(0x66, 0x6d, 0x74, 0x20);
const DATA = letters(0x64, 0x61, 0x74, 0x61);

// Reads a WAV file: integers of 8, 16, 24 or 32 bits or floats of 32 or 64. Channels are mixed into one by their mean. A
// chunk that says it is longer than the file, as recorders leave it when they are cut off, ends with the file. limit is
// the most samples, of four bytes each, that it may make: what the step's memory holds. Null after fail.
export function readSound(file: Span, limit: u32): Sound | null {
  if (file.length < 12 || load<u32>(file.at) != RIFF || load<u32>(file.at + 8) != WAVE) {
    fail("the sound is not a WAV file");
    return null;
  }
  let wav: Wav | null = null;
  for (let at: u32 = 12; file.length - at >= 8; ) {
    const body = file.at + at + 8, name = load<u32>(body - 8), room = file.length - at - 8, size = min<u32>(load<u32>(body - 4), room);
    if (name == FMT) {
      wav = readFormat(body, size);
      if (wav == null) return null;
    } else if (name == DATA) {
      if (wav != null) return readSamples(wav, body, size, limit);
      fail("the sound's samples come before its format");
      return null;
    }
    at += 8 + (size < room ? size + (size & 1) : size);
  }
  fail("the sound has no samples: want a WAV file with a fmt and a data chunk");
  return null;
}

function readFormat(body: usize, size: u32): Wav | null {
  if (size < 16) {
    fail(`the sound's format has ${size.toString()} bytes: want at least 16`);
    return null;
  }
  const wav = new Wav(load<u16>(body), load<u16>(body, 2), load<u32>(body, 4), load<u16>(body, 14)), bits = wav.bits;
  if (wav.code == 0xFFFE && size >= 26) wav.code = load<u16>(body, 24); // WAVE_FORMAT_EXTENSIBLE: the sub-format
  if (!checkRate("the sound has", wav.rate)) return null;
  if (wav.channels < 1 || wav.channels > MAX_CHANNELS) {
    fail(`the sound has ${wav.channels.toString()} channels: want 1 to ${MAX_CHANNELS.toString()}`);
    return null;
  }
  if (wav.code == 1 && (bits == 8 || bits == 16 || bits == 24 || bits == 32) || wav.code == 3 && (bits == 32 || bits == 64)) return wav;
  fail(`the sound has encoding ${wav.code.toString()} with ${bits.toString()} bits: ` +
    "want integers (1) of 8, 16, 24 or 32 bits or floats (3) of 32 or 64");
  return null;
}

// The mean of the channels. What is left of an incomplete last sample is left out.
function readSamples(wav: Wav, body: usize, size: u32, limit: u32): Sound | null {
  const step = wav.bits / 8, channels = wav.channels, count = size / (step * channels);
  if (count > limit) {
    fail(`the sound has ${count.toString()} samples: at most ${limit.toString()} are taken`);
    return null;
  }
  const samples = new StaticArray<f32>(<i32>count), to = changetype<usize>(samples);
  for (let i: u32 = 0; i < count; i++) {
    let sum: f64 = 0;
    for (let c: u32 = 0; c < channels; c++, body += step) sum += sample(body, wav.code, wav.bits);
    store<f32>(to + (<usize>i << 2), <f32>(sum / <f64>channels));
  }
  return new Sound(wav.rate, samples);
}

// One sample. A float that is no number, or that 32 bits do not hold, is silence.
function sample(p: usize, code: u32, bits: u32): f64 {
  if (code == 1) {
    if (bits == 8) return (<f64>load<u8>(p) - 128) / 128;
    if (bits == 16) return <f64>load<i16>(p) / 32768;
    if (bits == 24) return <f64><i32>(<u32>load<u16>(p) << 8 | <u32>load<u8>(p, 2) << 24) / 2147483648;
    return <f64>load<i32>(p) / 2147483648;
  }
  const v = bits == 32 ? <f64>load<f32>(p) : load<f64>(p);
  return v >= -<f64>f32.MAX_VALUE && v <= <f64>f32.MAX_VALUE ? v : 0;
}
