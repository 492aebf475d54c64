//! A WAV file as samples from -1 to 1, its channels mixed into one, and frames of them.

use crate::{Error, Result};

/// The lowest rate that is taken, in samples a second.
pub const MIN_SAMPLE_RATE: u32 = 1000;
/// The highest rate that is taken, in samples a second.
pub const MAX_SAMPLE_RATE: u32 = 768000;
/// The most channels of a sound.
pub const MAX_CHANNELS: u16 = 64;

/// One channel of samples from -1 to 1.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Sound {
    /// Samples a second.
    pub rate: u32,
    pub samples: Vec<f32>,
}

/// The fmt chunk of a WAV file; code is 1 for integers, 3 for floats.
struct Wav {
    code: u16,
    channels: u16,
    rate: u32,
    bits: u16,
}

fn u16le(p: &[u8]) -> u16 {
    u16::from_le_bytes([p[0], p[1]])
}

fn u32le(p: &[u8]) -> u32 {
    u32::from_le_bytes([p[0], p[1], p[2], p[3]])
}

/// Zeros, or an error where there is no memory for them.
pub(crate) fn zeros(n: usize) -> Result<Vec<f32>> {
    let mut values = Vec::new();
    values.try_reserve_exact(n).map_err(|_| Error(format!("out of memory: {} elements of 4 bytes", n)))?;
    values.resize(n, 0.0);
    Ok(values)
}

pub(crate) fn check_rate(what: &str, rate: u32) -> Result<()> {
    if (MIN_SAMPLE_RATE..=MAX_SAMPLE_RATE).contains(&rate) {
        return Ok(());
    }
    Err(Error(format!("{} {} samples a second: want {} to {}", what, rate, MIN_SAMPLE_RATE, MAX_SAMPLE_RATE)))
}

/// Reads a WAV file: integers of 8, 16, 24 or 32 bits or floats of 32 or 64. Channels are mixed into one by their mean. A
/// chunk that says it is longer than the file, as recorders leave it when they are cut off, ends with the file. `limit` is
/// the most samples, of four bytes each, that it may make: what the step's memory holds.
pub fn read_sound(file: &[u8], limit: u32) -> Result<Sound> {
    if file.len() < 12 || &file[..4] != b"RIFF" || &file[8..12] != b"WAVE" {
        return Err(Error::new("the sound is not a WAV file"));
    }
    let (mut rest, mut wav) = (&file[12..], None);
    while rest.len() >= 8 {
        let (name, size) = (&rest[..4], u32le(&rest[4..]) as usize);
        let room = &rest[8..];
        let body = &room[..size.min(room.len())];
        if name == b"fmt " {
            wav = Some(Wav::read(body)?);
        } else if name == b"data" {
            let wav = wav.ok_or_else(|| Error::new("the sound's samples come before its format"))?;
            return wav.samples(body, limit);
        }
        rest = &room[size.saturating_add(size & 1).min(room.len())..];
    }
    Err(Error::new("the sound has no samples: want a WAV file with a fmt and a data chunk"))
}

impl Wav {
    fn read(body: &[u8]) -> Result<Wav> {
        if body.len() < 16 {
            return Err(Error(format!("the sound's format has {} bytes: want at least 16", body.len())));
        }
        let mut wav = Wav { code: u16le(body), channels: u16le(&body[2..]), rate: u32le(&body[4..]), bits: u16le(&body[14..]) };
        if wav.code == 0xFFFE && body.len() >= 26 {
            wav.code = u16le(&body[24..]); // WAVE_FORMAT_EXTENSIBLE: the sub-format
        }
        check_rate("the sound has", wav.rate)?;
        if wav.channels < 1 || wav.channels > MAX_CHANNELS {
            return Err(Error(format!("the sound has {} channels: want 1 to {}", wav.channels, MAX_CHANNELS)));
        }
        match (wav.code, wav.bits) {
            (1, 8) | (1, 16) | (1, 24) | (1, 32) | (3, 32) | (3, 64) => Ok(wav),
            (code, bits) => Err(Error(format!(
                "the sound has encoding {} with {} bits: want integers (1) of 8, 16, 24 or 32 bits or floats (3) of 32 or 64",
                code, bits
            ))),
        }
    }

    /// The mean of the channels. What is left of an incomplete last sample is left out.
    fn samples(&self, body: &[u8], limit: u32) -> Result<Sound> {
        let step = self.bits as usize / 8;
        let all = step * self.channels as usize;
        let count = body.len() / all;
        if count > limit as usize {
            return Err(Error(format!("the sound has {} samples: at most {} are taken", count, limit)));
        }
        let mut samples = zeros(count)?;
        for (to, moment) in samples.iter_mut().zip(body.chunks_exact(all)) {
            let mut sum = 0f64;
            for p in moment.chunks_exact(step) {
                sum += self.sample(p);
            }
            *to = (sum / self.channels as f64) as f32;
        }
        Ok(Sound { rate: self.rate, samples })
    }

    /// One sample. A float that is no number, or that 32 bits do not hold, is silence.
    fn sample(&self, p: &[u8]) -> f64 {
        let v = match (self.code, self.bits) {
            (1, 8) => return (p[0] as f64 - 128.0) / 128.0,
            (1, 16) => return u16le(p) as i16 as f64 / 32768.0,
            (1, 24) => return i32::from_le_bytes([0, p[0], p[1], p[2]]) as f64 / 2147483648.0,
            (1, _) => return u32le(p) as i32 as f64 / 2147483648.0,
            (_, 32) => f32::from_bits(u32le(p)) as f64,
            _ => f64::from_bits(u32le(p) as u64 | (u32le(&p[4..]) as u64) << 32),
        };
        if (-(f32::MAX as f64)..=f32::MAX as f64).contains(&v) {
            v
        } else {
            0.0
        }
    }
}

impl Sound {
    /// Frames of `width` samples, one every `hop` samples, of the sound with `before` and `after` samples of silence around
    /// it: as many whole ones as there are, behind one another. All of them have at most `limit` samples.
    pub fn frames(&self, width: u32, hop: u32, before: u32, after: u32, limit: u32) -> Result<Vec<f32>> {
        if width == 0 || hop == 0 {
            return Err(Error(format!("frames of {} samples, one every {}: want 1 or more", width, hop)));
        }
        let all = before as u64 + self.samples.len() as u64 + after as u64;
        let frames = if all < width as u64 { 0 } else { 1 + (all - width as u64) / hop as u64 };
        if frames > (limit / width) as u64 {
            return Err(Error(format!("{} frames of {} samples: at most {} samples are taken", frames, width, limit)));
        }
        let mut to = zeros(frames as usize * width as usize)?;
        for (i, frame) in to.chunks_exact_mut(width as usize).enumerate() {
            let from = i as i64 * hop as i64 - before as i64;
            let (low, high) = (0.max(-from), (width as i64).min(self.samples.len() as i64 - from));
            if low < high {
                frame[low as usize..high as usize].copy_from_slice(&self.samples[(from + low) as usize..(from + high) as usize]);
            }
        }
        Ok(to)
    }
}
