package onnxfile

import (
	"slices"
	"strings"
)

// headBytes is how much of a file's beginning tells what else it may be.
const headBytes = 32

// foreign lists the beginnings of files that people take for ONNX, so that the message can say what they have.
var foreign = []struct {
	at     int
	prefix string
	advice string
}{
	{
		4, "ORTM",
		"it is in ONNX Runtime's own .ort format, which is not accepted from users: upload the .onnx file it was made from",
	},
	{0, "\x7fELF", "it is a program or a shared library"},
	{0, "PK\x03\x04", "it is a zip archive (a PyTorch .pt file is one too): export the model to ONNX"},
	{0, "\x1f\x8b", "it is gzip-compressed: unpack it first"},
	{0, "\x89PNG", "it is a picture"},
	{0, "\xff\xd8\xff", "it is a picture"},
	{0, "\x89HDF", "it is an HDF5 file, as Keras writes them: convert the model to ONNX"},
	{0, "GGUF", "it is a GGUF file: convert the model to ONNX"},
	{4, "TFL3", "it is a TensorFlow Lite file: convert the model to ONNX"},
	{0, "%PDF", "it is a PDF document"},
	{0, "version https://git-lfs", "it is a Git LFS pointer: fetch the file it stands for"},
}

// foreignAdvice returns what the file that begins with head is, "" when that is not known.
func foreignAdvice(head []byte) string {
	for _, f := range foreign {
		if len(head) >= f.at && strings.HasPrefix(string(head[f.at:]), f.prefix) {
			return f.advice
		}
	}
	return ""
}

// isText tells whether a file that is no model begins as text does.
func isText(head []byte) bool {
	return len(head) > 0 && !slices.ContainsFunc(head, func(c byte) bool {
		return (c < ' ' || c > '~') && c != '\t' && c != '\n' && c != '\r'
	})
}

// textAdvice returns what a text is that people take for a model.
func textAdvice(head []byte) string {
	begin := strings.ToLower(strings.TrimSpace(string(head)))
	if strings.HasPrefix(begin, "<!doctype html") || strings.HasPrefix(begin, "<html") {
		return "it is a web page: the download brought a page in place of the file"
	}
	return "it is text"
}
