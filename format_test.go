package edgewise

import "testing"

func TestAFormatIsKnownByPlatformAndFileName(t *testing.T) {
	formats := Formats{
		{Platform: "onnxruntime_onnx", Backend: "onnxruntime", File: "model.onnx"},
		{Platform: "ensemble"},
		{Platform: "pytorch_libtorch", Backend: "pytorch", File: "model.pt", External: true},
	}
	for name, want := range map[string]string{
		"net.onnx": "onnxruntime_onnx", "NET.ONNX": "onnxruntime_onnx", ".onnx": "", "net.onnx.data": "", "onnx": "", "": "",
	} {
		if f, ok := formats.OfFile(name); f.Platform != want || ok != (want != "") {
			t.Errorf("%q has the platform %q, %v: want %q", name, f.Platform, ok, want)
		}
	}
	for platform, want := range map[string]string{
		"onnxruntime_onnx": "onnx", "ensemble": "ensemble", "pytorch_libtorch": "pytorch", "tensorrt_plan": "other",
	} {
		if got := formats.Kind(&Model{Platform: platform}); got != want {
			t.Errorf("platform %q is of kind %q: want %q", platform, got, want)
		}
	}
}
