package bucket

import (
	"context"
	"encoding/json"
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

// readOnly and readWrite are what tokens are asked for.
const (
	readOnly  = "https://www.googleapis.com/auth/devstorage.read_only"
	readWrite = "https://www.googleapis.com/auth/devstorage.read_write"
)

// maxTries is how often a client asks a store that does not answer as it should.
const maxTries = 4

// OpenGS opens a bucket of Google Cloud Storage, or of the server at STORAGE_EMULATOR_HOST: gs://bucket/path.
func OpenGS(ctx context.Context, r *fetch.Request) (place.Place, error) {
	name, path, _ := strings.Cut(strings.TrimPrefix(r.URL, "gs://"), "/")
	if name == "" {
		return nil, fetch.Failf(fetch.Invalid, "the URL names no bucket: want gs://bucket/path")
	}
	own := &gsClient{}
	scope := readOnly
	if r.Command == fetch.Put {
		scope = readWrite
	}
	client, err := own.open(ctx, r.Credentials, scope)
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

func (g *gsClient) open(ctx context.Context, c fetch.Credentials, scope string) (*gcp.HTTPClient, error) {
	var found *google.Credentials
	var err error
	switch {
	case os.Getenv("STORAGE_EMULATOR_HOST") != "": // whose addresses are no Google's: no token is for it
	case c.ServiceAccount != "":
		found, err = google.CredentialsFromJSON(ctx, []byte(c.ServiceAccount), scope)
		if err != nil { // its words would quote the file
			return nil, fetch.Failf(fetch.Denied, "the credentials are none of Google's")
		}
	default:
		found, err = google.FindDefaultCredentials(ctx, scope)
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

func (*gsClient) describe(o *blob.ListObject, e *fetch.Entry) {
	var attrs storage.ObjectAttrs
	if !o.As(&attrs) {
		return
	}
	e.Tag = strconv.FormatInt(attrs.Generation, 10)
	if attrs.CRC32C != 0 { // otherwise the list has none, or one object of four billion is compared with its MD5
		e.CRC32C = fmt.Sprintf("%08x", attrs.CRC32C)
	}
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

func (*gsClient) opened(r *blob.Reader) (tag string, sum place.Sum) {
	var reader *storage.Reader
	if r.As(&reader) && reader.Attrs.Generation != 0 {
		tag = strconv.FormatInt(reader.Attrs.Generation, 10)
	}
	return tag, place.SumListed
}

// said is why a server of tokens gave none. For accounts of services the client leaves its answer unread.
func said(e *oauth2.RetrieveError) string {
	answer := struct {
		Code        string `json:"error"`
		Description string `json:"error_description"`
	}{e.ErrorCode, e.ErrorDescription}
	if answer.Code == "" && (json.Unmarshal(e.Body, &answer) != nil || answer.Code == "") && e.Response != nil {
		return e.Response.Status
	}
	return fmt.Sprintf("%.100s %.200s", answer.Code, answer.Description)
}

func (g *gsClient) explain(err error) (kind, message string) {
	if token, ok := errors.AsType[*oauth2.RetrieveError](err); ok {
		return fetch.Denied, "no token is given for the credentials: " + said(token)
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
