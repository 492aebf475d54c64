package webui

import (
	"bytes"
	"strings"
	"testing"
)

func TestTheAddressesOfThePageAnswerWithThePage(t *testing.T) {
	for _, name := range []string{"", "index.html", "models", "models/cat", "models/cat.v1.2", "settings/keys", "no/such/page"} {
		asset, found := Find(name, "gzip, deflate")
		if !found || !strings.HasPrefix(asset.Type, "text/html") || asset.CacheControl != "no-cache" || len(asset.Body) == 0 {
			t.Errorf("Find(%q): found %v, type %q, cache %q, %d bytes", name, found, asset.Type, asset.CacheControl, len(asset.Body))
		}
		if !strings.Contains(asset.Policy, "default-src 'none'") || strings.Contains(asset.Policy, "unsafe") {
			t.Errorf("Find(%q): policy %q", name, asset.Policy)
		}
	}
}

func TestWhatIsNotThereIsNotThePage(t *testing.T) {
	for _, name := range []string{"assets/gone.js", "favicon.ico", "../embed.go", "x/../../embed.go", "assets/../../doc.go", ".built"} {
		if asset, found := Find(name, ""); found && !strings.HasPrefix(asset.Type, "text/html") {
			t.Errorf("Find(%q) answers with %s", name, asset.Type)
		}
	}
	if _, found := Find("assets/gone.js", "br"); found {
		t.Error("an asset that is missing is found")
	}
}

func TestEachClientGetsAFormThatItTakes(t *testing.T) {
	tests := []struct {
		name, header string
		brotli, gzip bool
	}{
		{name: "none", header: ""},
		{name: "identity", header: "identity"},
		{name: "gzip", header: "gzip", gzip: true},
		{name: "both", header: "gzip, deflate, br, zstd", brotli: true, gzip: true},
		{name: "weights", header: "br;q=0, gzip;q=0.5", gzip: true},
		{name: "zero in another form", header: "br; q=0.000, GZIP; q=1.0", gzip: true},
		{name: "only in a longer name", header: "brx, xgzip"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			if got := accepts(test.header, "br"); got != test.brotli {
				t.Errorf("br: %v, want %v", got, test.brotli)
			}
			if got := accepts(test.header, "gzip"); got != test.gzip {
				t.Errorf("gzip: %v, want %v", got, test.gzip)
			}
			asset, found := Find("", test.header)
			if !found || asset.Encoding == "br" && !test.brotli || asset.Encoding == "gzip" && !test.gzip {
				t.Errorf("answered with encoding %q", asset.Encoding)
			}
		})
	}
}

func TestEveryFormHasItsOwnTag(t *testing.T) {
	if _, built := find(index, ""); !built {
		t.Log("the page is not built: its stub has one form")
	}
	plain, _ := Find("", "")
	packed, _ := Find("", "gzip")
	if packed.Encoding != "" && (plain.ETag == packed.ETag || bytes.Equal(plain.Body, packed.Body)) {
		t.Error("two forms of a file share a tag")
	}
	if !strings.Contains(string(plain.Body), "<html") {
		t.Errorf("plain form: %.40q", plain.Body)
	}
}

// TestAProgramWithoutItsPageCanBeBuilt needs the one file of the folder that is committed: without any, nothing builds.
func TestAProgramWithoutItsPageCanBeBuilt(t *testing.T) {
	asset, found := find(stub, "")
	if !found || !bytes.Contains(asset.Body, []byte("make webui")) {
		t.Errorf("webui/dist/%s: found %v, %.80q", stub, found, asset.Body)
	}
}

func TestOnlyTheWorkersScriptsMayMakeWebAssembly(t *testing.T) {
	if strings.Contains(policy, "wasm") || !strings.Contains(workerPolicy, "'wasm-unsafe-eval'") ||
		!strings.Contains(workerPolicy, "connect-src data:;") {
		t.Errorf("policies: %q and %q", policy, workerPolicy)
	}
}
