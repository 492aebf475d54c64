package export

import (
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"
)

// schemes are those that KServe's storage initializer fetches from.
var schemes = []string{"gs", "s3", "hf", "hdfs", "webhdfs", "http", "https", "pvc", "oci", "git"}

// checkURI returns nil for a place that KServe fetches from.
func checkURI(text string) error {
	u, err := url.Parse(text)
	switch {
	case err != nil:
		return errors.Unwrap(err)
	case !slices.Contains(schemes, u.Scheme):
		return fmt.Errorf("want a URL of KServe: %s://", strings.Join(schemes, "://, "))
	case u.Host == "":
		return errors.New("it names no bucket, server or volume")
	case u.User != nil:
		return errors.New("credentials belong into a Secret, and not into the URL")
	}
	return nil
}

// storageURI turns the origin of a version, which has a URL in Triton's form, into the one of KServe, "" where there is
// none. note is what a person has to know of it.
func storageURI(origin string) (uri, note string) {
	scheme, rest, _ := strings.Cut(origin, "://")
	switch scheme {
	case "gs":
		return origin, ""
	case "as":
		account, path, _ := strings.Cut(rest, "/")
		if !strings.Contains(account, ".") {
			account += ".blob.core.windows.net"
		}
		return "https://" + account + "/" + path, ""
	case "s3":
		endpoint, path := endpointOf(rest)
		if endpoint == "" {
			return origin, ""
		}
		return "s3://" + path, "The bucket is at " + endpoint + ": the Secret of its credentials wants serving.kserve.io/s3-endpoint."
	case "oci":
		if !strings.Contains(rest, "@sha256:") {
			return "", "" // a folder in a repository: what stands there is no image
		}
		return origin, "KServe takes oci:// where enableOciModelSupport is on, and only images with the model in /models: what " +
			"\"edgewise model push\" has published is none."
	}
	return "", ""
}

// endpointOf splits what stands behind s3:// in Triton's form: a server, where it names one, and bucket with path.
func endpointOf(rest string) (endpoint, path string) {
	for _, scheme := range []string{"http://", "https://"} {
		if after, ok := strings.CutPrefix(rest, scheme); ok {
			host, path, _ := strings.Cut(after, "/")
			return scheme + host, path
		}
	}
	if host, path, _ := strings.Cut(rest, "/"); strings.Contains(host, ":") {
		return "http://" + host, path
	}
	return "", rest
}
