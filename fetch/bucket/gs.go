package bucket

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"strconv"
	"strings"

	"cloud.google.com/go/storage"
	"gocloud.dev/blob"
	"gocloud.dev/blob/gcsblob"
	"gocloud.dev/gcp"
	"golang.org/x/oauth2"
	"golang.org/x/oauth2/google"
	"google.golang.org/api/googleapi"

	"github.com/edgewise-ai/edgewise/api/fetch"
	"github.com/edgewise-ai/edgewise/fetch/place"
)

// readOnly is what tokens are asked for.
const readOnly = "https://www.googleapis.com/auth/devstorage.read_only"

// maxTries is how often a client asks a store that does not answer as it should.
const maxTries = 4

// OpenGS opens a bucket of Google Cloud Storage, or of the server at STORAGE_EMULATOR_HOST: gs://bucket/path.
func OpenGS(ctx context.Context, text string, c fetch.Credentials) (place.Place, error) {
	name, path, _ := strings.Cut(strings.TrimPrefix(text, "gs://"), "/")
	if name == "" {
		return nil, fetch.Failf(fetch.Invalid, "the URL names no bucket: want gs://bucket/path")
	}
	own := &gsClient{}
	client, err := own.open(ctx, c)
	if err != nil {
		return nil, err
	}
	opened, err := gcsblob.OpenBucket(ctx, client, name, nil)
	if err != nil {
		return nil, fetch.Failf(fetch.Invalid, "%v", err)
	}
	var service *storage.Client
	if opened.As(&service) {
		service.SetRetry(storage.WithMaxAttempts(maxTries))
	}
	return &bucket{Bucket: opened, client: own, prefix: below(path)}, nil
}

// transport is that of clients that have no bound of their own for an answer.
func transport() http.RoundTripper {
	t := http.DefaultTransport.(*http.Transport).Clone()
	t.ResponseHeaderTimeout = answerTimeout
	return t
}

// gsClient is what is particular to Google Cloud Storage.
type gsClient struct{ anonymous bool }

func (g *gsClient) open(ctx context.Context, c fetch.Credentials) (*gcp.HTTPClient, error) {
	var found *google.Credentials
	var err error
	switch {
	case os.Getenv("STORAGE_EMULATOR_HOST") != "": // whose addresses are no Google's: no token is for it
	case c.ServiceAccount != "":
		found, err = google.CredentialsFromJSON(ctx, []byte(c.ServiceAccount), readOnly)
		if err != nil { // its words would quote the file
			return nil, fetch.Failf(fetch.Denied, "the credentials are none of Google's")
		}
	default:
		found, err = google.FindDefaultCredentials(ctx, readOnly)
		if err != nil && os.Getenv("GOOGLE_APPLICATION_CREDENTIALS") != "" {
			return nil, fetch.Failf(fetch.Denied, "the file of GOOGLE_APPLICATION_CREDENTIALS cannot be used")
		}
	}
	if found == nil { // a bucket may be public
		g.anonymous = true
		return gcp.NewAnonymousHTTPClient(transport()), nil
	}
	client, err := gcp.NewHTTPClient(transport(), found.TokenSource)
	if err != nil {
		return nil, fetch.Failf(fetch.Denied, "the credentials cannot be used")
	}
	return client, nil
}

func (*gsClient) tag(o *blob.ListObject) string {
	var attrs storage.ObjectAttrs
	if !o.As(&attrs) {
		return ""
	}
	return strconv.FormatInt(attrs.Generation, 10)
}

// only asks for the bytes as they are stored, too: those of an object with a content encoding have the size and the MD5
// that are listed.
func (*gsClient) only(tag string) func(as func(any) bool) error {
	return func(as func(any) bool) error {
		var object **storage.ObjectHandle
		generation, err := strconv.ParseInt(tag, 10, 64)
		if err != nil || !as(&object) {
			return errors.New("BUG: reading an object of Google Cloud Storage has no handle")
		}
		*object = (*object).ReadCompressed(true)
		if generation != 0 {
			*object = (*object).If(storage.Conditions{GenerationMatch: generation})
		}
		return nil
	}
}

func (*gsClient) unsummed(*blob.Reader) bool { return false }

func (g *gsClient) explain(err error) (kind, message string) {
	if token, ok := errors.AsType[*oauth2.RetrieveError](err); ok {
		return fetch.Denied, fmt.Sprintf("no token is given for the credentials: %s %s", token.ErrorCode, token.ErrorDescription)
	}
	own, ok := errors.AsType[*googleapi.Error](err)
	if !ok {
		return "", ""
	}
	if kind = kindOfStatus(own.Code); own.Message != "" {
		message = fmt.Sprintf("the store says %d: %s", own.Code, own.Message)
	} else {
		message = fmt.Sprintf("the store says %d %s", own.Code, http.StatusText(own.Code))
	}
	if kind == fetch.Denied && g.anonymous {
		message += " (no credentials were found)"
	}
	return kind, message
}
