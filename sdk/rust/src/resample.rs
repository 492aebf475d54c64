//! A sound at another rate, by a windowed sinc: 24 zero crossings a side, a Kaiser window, about 90 dB of stop band. All SDKs
//! compute it in the same order, so that their answers are the same to the bit.

use crate::sound::{check_rate, zeros, Sound};
use crate::{Error, Result};

const ZEROS: f64 = 24.0;
const BETA: f64 = 8.6;
const BAND: f64 = 0.95;
/// Fractions of a sample of the lower rate at which an output sample may lie; others are rounded.
const PHASES: u64 = 4096;

/// The sine of pi * r is r times this polynomial of r * r, for r from -0.5 to 0.5.
const SINE: [f64; 11] = [
    3.141592653589793, -5.16771278004997, 2.5501640398773455, -0.5992645293207921, 0.08214588661112823, -0.0073704309457143504,
    0.00046630280576761255, -2.1915353447830217e-05, 7.952054001475513e-07, -2.2948428997269873e-08, 5.392664662608129e-10,
];

/// 1 / (k!)^2 of every other k, from the least on.
const BESSEL_EVEN: [f64; 11] = [
    1.0, 0.25, 0.001736111111111111, 1.9290123456790124e-06, 6.151187326782565e-10, 7.594058428126623e-14, 4.358389823304995e-18,
    1.3157800456783586e-22, 2.2843403570804838e-27, 2.4395962632753253e-32, 1.6894710964510564e-37,
];
const BESSEL_ODD: [f64; 11] = [
    1.0, 0.027777777777777776, 6.944444444444444e-05, 3.936759889140842e-08, 7.594058428126624e-12, 6.276081345559193e-16,
    2.5789288895295828e-20, 5.8479113141260385e-25, 7.904291893012054e-30, 6.757884385804225e-35, 3.8310002187098785e-40,
];

/// The modified Bessel function of the first kind of order zero, by its power series; x is at most BETA.
fn bessel(x: f64) -> f64 {
    let t = x * x / 4.0;
    let (u, mut even, mut odd) = (t * t, BESSEL_EVEN[10], BESSEL_ODD[10]);
    for k in (0..10).rev() {
        even = even * u + BESSEL_EVEN[k];
        odd = odd * u + BESSEL_ODD[k];
    }
    even + t * odd
}

/// The sine of pi * t over pi * t; t is less than 2^31 to both sides.
fn sinc(t: f64) -> f64 {
    if t == 0.0 {
        return 1.0;
    }
    let whole = (t + 0.5).floor();
    let r = t - whole;
    let (s, mut p) = (r * r, SINE[10]);
    for k in (0..10).rev() {
        p = p * s + SINE[k];
    }
    (if whole as i32 & 1 != 0 { -r * p } else { r * p }) / (std::f64::consts::PI * t)
}

/// Writes the taps of one phase, which sum to 1: the value at offset after the half-th of them.
fn phase(taps: &mut [f32], offset: f64, cutoff: f64, window: f64) {
    let (half, mut sum) = (taps.len() / 2, 0.0);
    for (k, to) in taps.iter_mut().enumerate() {
        let x = (k as i64 - half as i64 + 1) as f64 - offset;
        let at = x / half as f64;
        let kaiser = if at < -1.0 || at > 1.0 { 0.0 } else { bessel(BETA * (1.0 - at * at).sqrt()) / window };
        let tap = sinc(cutoff * x) * kaiser;
        *to = tap as f32;
        sum += tap;
    }
    for tap in taps.iter_mut() {
        *tap = (*tap as f64 / sum) as f32;
    }
}

/// The sum of the products of pairs, in the order in which four vectors of four add them up.
fn dot(a: &[f32], b: &[f32]) -> f32 {
    let mut sum = [0f32; 16];
    let (blocks, others) = (a.chunks_exact(32), b.chunks_exact(32));
    let (rest, other_rest) = (blocks.remainder(), others.remainder());
    for (a, b) in blocks.zip(others) {
        for e in 0..16 {
            sum[e] = sum[e] + a[e] * b[e] + a[e + 16] * b[e + 16];
        }
    }
    let (fours, other_fours) = (rest.chunks_exact(4), other_rest.chunks_exact(4));
    let (last, other_last) = (fours.remainder(), other_fours.remainder());
    for (a, b) in fours.zip(other_fours) {
        for e in 0..4 {
            sum[e] += a[e] * b[e];
        }
    }
    let lane = |e: usize| (sum[e] + sum[e + 4]) + (sum[e + 8] + sum[e + 12]);
    let mut total = lane(0) + lane(1) + lane(2) + lane(3);
    for (a, b) in last.iter().zip(other_last) {
        total += a * b;
    }
    total
}

/// How many phases there are between two rates: the taps of all of them stay below a megabyte.
fn phases_of(from: u32, to: u32) -> u64 {
    let (mut a, mut b) = (from, to);
    while b != 0 {
        let rest = a % b;
        a = b;
        b = rest;
    }
    ((to / a) as u64).min(PHASES * from.min(to) as u64 / from as u64)
}

/// The taps of all phases, and how many there are on each side.
fn filter_bank(from: u32, to: u32, phases: usize) -> Result<(Vec<f32>, usize)> {
    let cutoff = BAND * 1f64.min(to as f64 / from as f64);
    let half = (ZEROS / cutoff).ceil() as usize;
    let (size, window) = (2 * half, bessel(BETA));
    let mut bank = zeros((phases + 1) * size)?;
    for p in 0..phases / 2 + 1 {
        phase(&mut bank[p * size..(p + 1) * size], p as f64 / phases as f64, cutoff, window);
        // The last phases are the first ones, the other way round.
        for k in 0..size {
            bank[(phases - p) * size + size - 1 - k] = bank[p * size + k];
        }
    }
    Ok((bank, half))
}

impl Sound {
    /// The sound at another rate. Beyond both ends there is silence. `limit` is the most samples, of four bytes each, that
    /// it may make.
    pub fn resample(self, rate: u32, limit: u32) -> Result<Sound> {
        let (from, to, n) = (self.rate as u64, rate as u64, self.samples.len() as i64);
        check_rate("the sound has", self.rate)?;
        check_rate("the sound is brought to", rate)?;
        let count = (n as u64 * to + from - 1) / from;
        if count > limit as u64 {
            return Err(Error(format!("the sound has {} samples at {} a second: at most {} are taken", count, rate, limit)));
        }
        if from == to {
            return Ok(self);
        }
        let phases = phases_of(self.rate, rate);
        let (bank, half) = filter_bank(self.rate, rate, phases as usize)?;
        let mut samples = zeros(count as usize)?;
        for (i, sample) in samples.iter_mut().enumerate() {
            let position = i as u64 * from;
            let (part, first) = (position % to, (position / to) as i64 - half as i64 + 1);
            let taps = &bank[((part * phases + to / 2) / to) as usize * 2 * half..][..2 * half];
            let (low, high) = (0.max(-first), (2 * half as i64).min(n - first));
            if low < high {
                *sample = dot(&taps[low as usize..high as usize], &self.samples[(first + low) as usize..(first + high) as usize]);
            }
        }
        Ok(Sound { rate, samples })
    }
}
