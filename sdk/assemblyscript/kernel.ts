// The kernels of the box: loops for images and scores, on pointers. What each computes, to the rounding, and what the
// arguments are: docs/steps-abi.md. Each returns -1 when it did not work; lastError has the reason.

// @ts-ignore: decorator
@external("edgewise_v1", "image_info") export declare function imageInfo(src: usize, length: u32, flags: u32, dst: usize): i32;
// @ts-ignore: decorator
@external("edgewise_v1", "image_decode") export declare function imageDecode(src: usize, length: u32, flags: u32, channels: u32, dst: usize, room: u32): i32;
// @ts-ignore: decorator
@external("edgewise_v1", "image_resize") export declare function imageResize(src: usize, srcW: u32, srcH: u32, dst: usize, dstW: u32, dstH: u32, channels: u32, mode: u32): i32;
// @ts-ignore: decorator
@external("edgewise_v1", "image_letterbox") export declare function imageLetterbox(src: usize, srcW: u32, srcH: u32, dst: usize, dstW: u32, dstH: u32, channels: u32, mode: u32, fill: u32, map: usize): i32;
// @ts-ignore: decorator
@external("edgewise_v1", "image_normalize") export declare function imageNormalize(src: usize, w: u32, h: u32, channels: u32, dst: usize, dtype: u32, flags: u32, mean: usize, scale: usize): i32;
// @ts-ignore: decorator
@external("edgewise_v1", "image_tensor") export declare function imageTensor(src: usize, srcW: u32, srcH: u32, crop: usize, dst: usize, dstW: u32, dstH: u32, dtype: u32, mean: usize, scale: usize): i32;
// @ts-ignore: decorator
@external("edgewise_v1", "softmax") export declare function softmax(src: usize, dst: usize, rows: u32, cols: u32): i32;
// @ts-ignore: decorator
@external("edgewise_v1", "top_k") export declare function topK(src: usize, rows: u32, cols: u32, k: u32, values: usize, indices: usize): i32;
// @ts-ignore: decorator
@external("edgewise_v1", "nms") export declare function nms(boxes: usize, scores: usize, classes: usize, count: u32, iou: f32, score: f32, dst: usize, limit: u32): i32;
