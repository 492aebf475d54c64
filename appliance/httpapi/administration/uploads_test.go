package administration

import (
	"encoding/base64"
	"strings"
	"testing"

	"github.com/gofiber/fiber/v2"
	"github.com/valyala/fasthttp"

	"github.com/edgewise-ai/edgewise"
	"github.com/edgewise-ai/edgewise/appliance/httpapi"
	"github.com/edgewise-ai/edgewise/appliance/uploads"
)

// described reads an upload's headers as the route does.
func described(length, metadata string) (uploads.File, error) {
	app := fiber.New()
	c := app.AcquireCtx(&fasthttp.RequestCtx{})
	defer app.ReleaseCtx(c)
	c.Request().Header.Set("Upload-Length", length)
	c.Request().Header.Set("Upload-Metadata", metadata)
	return newUpload(&httpapi.Request{Ctx: c})
}

func pair(key, value string) string {
	return key + " " + base64.StdEncoding.EncodeToString([]byte(value))
}

func TestTheHeadersOfAnUpload(t *testing.T) {
	n, err := described("12", pair("filename", "größe.onnx")+","+pair("model", "cat")+" , "+pair("filetype",
		"x")+",activate "+base64.StdEncoding.EncodeToString([]byte("true")))
	if err != nil || n.Length != 12 || n.Filename != "größe.onnx" || n.Model != "cat" || !n.Activate {
		t.Errorf("%+v, %v", n, err)
	}
	for name, test := range map[string]struct {
		length, metadata string
		kind             edgewise.Kind
	}{
		"no length":       {"", "", edgewise.Invalid},
		"negative":        {"-1", "", edgewise.Invalid},
		"not a number":    {"1e9", "", edgewise.Invalid},
		"beyond 64 bits":  {"9223372036854775808", "", edgewise.Invalid},
		"no base64":       {"1", "filename ???", edgewise.Invalid},
		"a long metadata": {"1", strings.Repeat("x", maxMetadata+1), edgewise.TooLarge},
	} {
		t.Run(name, func(t *testing.T) {
			if _, err := described(test.length, test.metadata); err == nil || edgewise.KindOf(err) != test.kind {
				t.Errorf("%v", err)
			}
		})
	}
}

func FuzzUploadHeaders(f *testing.F) {
	f.Add("1", pair("filename", "a.onnx"))
	f.Add("x", "filename  ,, model")
	f.Fuzz(func(t *testing.T, length, metadata string) {
		n, err := described(length, metadata)
		if err == nil && (n.Length < 0 || len(n.Metadata) > maxMetadata) {
			t.Errorf("%+v", n)
		}
		if err != nil && edgewise.KindOf(err) == edgewise.Internal {
			t.Error(err)
		}
		if sum, err := uploadChecksum(metadata); err == nil && sum != nil && len(sum) != 32 {
			t.Errorf("%x", sum)
		}
	})
}
