//! The kernels of the box: loops for images and scores. What each computes, to the rounding: docs/steps-abi.md.

use crate::{last_error, Error, Result};

#[link(wasm_import_module = "edgewise_v1")]
extern "C" {
    fn image_info(src: *const u8, len: usize, flags: u32, dst: *mut ImageInfo) -> i32;
    fn image_decode(src: *const u8, len: usize, flags: u32, channels: u32, dst: *mut u8, room: usize) -> i32;
    fn image_resize(src: *const u8, src_w: u32, src_h: u32, dst: *mut u8, dst_w: u32, dst_h: u32, channels: u32, mode: u32) -> i32;
    fn image_letterbox(src: *const u8, src_w: u32, src_h: u32, dst: *mut u8, dst_w: u32, dst_h: u32, channels: u32, mode: u32, fill: u32, map: *mut Letterbox) -> i32;
    fn image_normalize(src: *const u8, w: u32, h: u32, channels: u32, dst: *mut f32, dtype: u32, flags: u32, mean: *const f32, scale: *const f32) -> i32;
    fn softmax(src: *const f32, dst: *mut f32, rows: usize, cols: usize) -> i32;
    fn top_k(src: *const f32, rows: usize, cols: usize, k: usize, values: *mut f32, indices: *mut i32) -> i32;
    fn nms(boxes: *const f32, scores: *const f32, classes: *const i32, count: usize, iou: f32, score: f32, dst: *mut i32, max: usize) -> i32;
}

/// What the header of a picture's file says: format is 1 JPEG, 2 PNG, 3 WebP.
#[repr(C)]
#[derive(Debug, Clone, Copy, Default)]
pub struct ImageInfo {
    pub width: u32,
    pub height: u32,
    pub channels: u32,
    pub format: u32,
}

/// Where a letterboxed picture lies: `x` in it is `x` in the source times `scale_x` plus `pad_x`.
#[repr(C)]
#[derive(Debug, Clone, Copy, Default)]
pub struct Letterbox {
    pub scale_x: f32,
    pub scale_y: f32,
    pub pad_x: f32,
    pub pad_y: f32,
}

/// How pictures are resized.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mode {
    Nearest = 0,
    Bilinear = 1,
    Area = 2,
}

/// Interleaved pixels of 8 bits.
#[derive(Debug, Clone, Default)]
pub struct Image {
    pub width: u32,
    pub height: u32,
    pub channels: u32,
    pub pixels: Vec<u8>,
}

const ORIENT: u32 = 1;

fn checked(n: i32) -> Result<i32> {
    if n < 0 {
        Err(last_error())
    } else {
        Ok(n)
    }
}

impl Image {
    /// A black image.
    pub fn new(width: u32, height: u32, channels: u32) -> Self {
        Image { width, height, channels, pixels: vec![0; width as usize * height as usize * channels as usize] }
    }

    /// Decodes a picture's file into 1, 3 or 4 channels, turned upright.
    pub fn decode(file: &[u8], channels: u32) -> Result<Image> {
        let mut info = ImageInfo::default();
        // Safety: pointers and lengths of this function's own slices.
        unsafe {
            checked(image_info(file.as_ptr(), file.len(), ORIENT, &mut info))?;
            let mut image = Image::new(info.width, info.height, channels);
            checked(image_decode(file.as_ptr(), file.len(), ORIENT, channels, image.pixels.as_mut_ptr(), image.pixels.len()))?;
            Ok(image)
        }
    }

    fn whole(&self) -> Result<()> {
        if self.pixels.len() == self.width as usize * self.height as usize * self.channels as usize {
            return Ok(());
        }
        Err(Error::new("an image's pixels are not as many as its sizes say"))
    }

    /// The image at another size.
    pub fn resize(&self, width: u32, height: u32, mode: Mode) -> Result<Image> {
        self.whole()?;
        let mut to = Image::new(width, height, self.channels);
        // Safety: both images are whole.
        checked(unsafe { image_resize(self.pixels.as_ptr(), self.width, self.height, to.pixels.as_mut_ptr(), width, height, self.channels, mode as u32) })?;
        Ok(to)
    }

    /// The image fitted into another size, keeping its proportions; the rest is `fill`.
    pub fn letterbox(&self, width: u32, height: u32, mode: Mode, fill: u8) -> Result<(Image, Letterbox)> {
        self.whole()?;
        let (mut to, mut map) = (Image::new(width, height, self.channels), Letterbox::default());
        // Safety: both images are whole.
        checked(unsafe {
            image_letterbox(self.pixels.as_ptr(), self.width, self.height, to.pixels.as_mut_ptr(), width, height, self.channels, mode as u32, fill as u32, &mut map)
        })?;
        Ok((to, map))
    }

    /// `(x - mean) * scale` of each channel, as planes, or interleaved; channels in reverse order where asked for.
    pub fn normalize(&self, interleaved: bool, reverse: bool, mean: &[f32], scale: &[f32]) -> Result<Vec<f32>> {
        self.whole()?;
        if mean.len() != self.channels as usize || scale.len() != self.channels as usize {
            return Err(Error::new("want a mean and a scale for each channel"));
        }
        let mut values = vec![0f32; self.pixels.len()];
        let flags = interleaved as u32 | (reverse as u32) << 1;
        // Safety: the image is whole, and values has room for it.
        checked(unsafe {
            image_normalize(self.pixels.as_ptr(), self.width, self.height, self.channels, values.as_mut_ptr(), 11, flags, mean.as_ptr(), scale.as_ptr())
        })?;
        Ok(values)
    }
}

/// Turns each row of `cols` values into probabilities, in place.
pub fn softmax_rows(values: &mut [f32], cols: usize) -> Result<()> {
    if cols == 0 || values.len() % cols != 0 {
        return Err(Error::new("values are not whole rows"));
    }
    let at = values.as_mut_ptr();
    // Safety: rows * cols values, in place.
    checked(unsafe { softmax(at, at, values.len() / cols, cols) })?;
    Ok(())
}

/// The `k` largest values of each row of `cols`, in falling order, and where in the row they are.
pub fn top_k_rows(values: &[f32], cols: usize, k: usize) -> Result<(Vec<f32>, Vec<i32>)> {
    if cols == 0 || values.len() % cols != 0 || k > cols {
        return Err(Error::new("values are not whole rows of at least k"));
    }
    let rows = values.len() / cols;
    let (mut best, mut indices) = (vec![0f32; rows * k], vec![0i32; rows * k]);
    // Safety: the lengths are as the sizes say.
    checked(unsafe { top_k(values.as_ptr(), rows, cols, k, best.as_mut_ptr(), indices.as_mut_ptr()) })?;
    Ok((best, indices))
}

/// Which boxes (x1, y1, x2, y2) to keep, the highest score first: those of at least `score` that overlap no kept box of
/// their class by more than `iou`. Without classes there is one. At most `limit` are returned.
pub fn nms_boxes(boxes: &[[f32; 4]], scores: &[f32], classes: Option<&[i32]>, iou: f32, score: f32, limit: usize) -> Result<Vec<i32>> {
    if boxes.len() != scores.len() || classes.map_or(false, |c| c.len() != scores.len()) {
        return Err(Error::new("want a score, and a class, for each box"));
    }
    let mut kept = vec![0i32; limit];
    let classes = classes.map_or(std::ptr::null(), |c| c.as_ptr());
    // Safety: the lengths are as the sizes say.
    let n = checked(unsafe { nms(boxes.as_ptr() as *const f32, scores.as_ptr(), classes, scores.len(), iou, score, kept.as_mut_ptr(), limit) })?;
    kept.truncate(n as usize);
    Ok(kept)
}
