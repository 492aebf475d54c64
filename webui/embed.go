package webui

import (
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"io"
	"io/fs"
	"mime"
	"path"
	"strings"
)

// built is what "make webui" makes. Text is there compressed only: NAME.br and NAME.gz stand for NAME. Without a build it
// holds stub.html alone, which says how to build.
//
//go:embed all:dist
var built embed.FS

const (
	index  = "index.html"
	stub   = "stub.html"
	assets = "assets/"  // hashed names: what is behind one never changes
	worker = "sandbox/" // below assets: the scripts of the worker that compiles and runs steps
)

// Asset is one file of the page, in the form that one client takes. Body is shared: it must not be modified.
type Asset struct {
	Body         []byte
	Type         string // Content-Type
	Encoding     string // Content-Encoding: "br", "gzip", or empty for none
	ETag         string // quoted
	CacheControl string
	Policy       string // Content-Security-Policy, whole
}

// Find returns the file at a path without a leading slash, in the best form that an Accept-Encoding header allows. A path
// in a folder other than the assets', or without an extension, is one of the page's own addresses and answered with the
// page: names of models may have dots. Any other unknown path is not there. Every answer depends on Accept-Encoding.
func Find(name, acceptEncoding string) (Asset, bool) {
	within := strings.Contains(name, "/") && !strings.HasPrefix(name, assets)
	if !fs.ValidPath(name) || within || path.Ext(name) == "" {
		name = index
	}
	asset, found := find(name, acceptEncoding)
	if !found && name == index {
		asset, found = find(stub, acceptEncoding)
	}
	return asset, found
}

func find(name, acceptEncoding string) (Asset, bool) {
	body, encoding, found := read(name, acceptEncoding)
	if !found {
		return Asset{}, false
	}
	sum := sha256.Sum256(body)
	asset := Asset{
		Body:         body,
		Type:         contentType(name),
		Encoding:     encoding,
		ETag:         `"` + hex.EncodeToString(sum[:12]) + `"`,
		CacheControl: "no-cache",
		Policy:       policy,
	}
	if rest, hashed := strings.CutPrefix(name, assets); hashed {
		asset.CacheControl = "public, max-age=31536000, immutable"
		if strings.HasPrefix(rest, worker) {
			asset.Policy = workerPolicy
		}
	}
	return asset, true
}

// read returns the smallest form of a file that the client takes.
func read(name, acceptEncoding string) (body []byte, encoding string, found bool) {
	for _, form := range []struct{ encoding, suffix string }{{"br", ".br"}, {"gzip", ".gz"}} {
		if accepts(acceptEncoding, form.encoding) {
			if body, err := built.ReadFile("dist/" + name + form.suffix); err == nil {
				return body, form.encoding, true
			}
		}
	}
	if body, err := built.ReadFile("dist/" + name); err == nil {
		return body, "", true
	}
	packed, err := built.ReadFile("dist/" + name + ".gz")
	if err != nil {
		return nil, "", false
	}
	body, err = unpack(packed)
	return body, "", err == nil
}

// unpack serves the rare client that takes no encoding. The input is our own build's.
func unpack(packed []byte) ([]byte, error) {
	r, err := gzip.NewReader(bytes.NewReader(packed))
	if err != nil {
		return nil, err
	}
	return io.ReadAll(r)
}

// accepts reports whether an Accept-Encoding header names an encoding and does not weigh it 0.
func accepts(header, encoding string) bool {
	for item := range strings.SplitSeq(header, ",") {
		name, weight, _ := strings.Cut(item, ";")
		if strings.EqualFold(strings.TrimSpace(name), encoding) {
			weight = strings.ReplaceAll(weight, " ", "")
			return strings.Trim(strings.TrimPrefix(weight, "q="), "0.") != "" || weight == ""
		}
	}
	return false
}

func contentType(name string) string {
	switch path.Ext(name) {
	case ".js":
		return "text/javascript; charset=utf-8"
	case ".svg":
		return "image/svg+xml"
	case ".txt":
		return "text/plain; charset=utf-8"
	case ".webmanifest":
		return "application/manifest+json"
	}
	if t := mime.TypeByExtension(path.Ext(name)); t != "" {
		return t
	}
	return "application/octet-stream"
}
