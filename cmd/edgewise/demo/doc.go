// Package demo is the client's side of the demonstration models: it turns pictures and sound into the tensors that the
// models take, and their answers into text, faces and speech. It is pure functions around an edgewise.Inferer; it reads
// no files and knows no protocol.
//
//   - OCR: text detection, direction and recognition with PP-OCRv4. The settings are PP-OCR's own.
//   - VAD: voice activity detection with Silero VAD 5.
//   - FaceDetector: face detection with BlazeFace.
//
// The file ppocr_keys_v1.txt is the alphabet of PP-OCR's recognition model. It is PaddleOCR's, under the Apache
// License 2.0.
package demo
