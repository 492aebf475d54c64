package bucket

import (
	"context"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/edgewise-ai/edgewise/api/fetch"
	"github.com/edgewise-ai/edgewise/fetch/place"
)

// listOf opens a place and lists it.
func listOf(t *testing.T, open place.Opener, r *fetch.Request) error {
	t.Helper()
	p, err := open(t.Context(), r)
	if err != nil {
		return err
	}
	defer func() { _ = p.Close() }()
	return p.List(t.Context(), func([]fetch.Entry) error { return nil })
}

// wantFailure fails unless an error is a failure of a kind that says a text and no secret.
func wantFailure(t *testing.T, err error, kind, text string) {
	t.Helper()
	f, ok := errors.AsType[*fetch.Failure](err)
	if !ok || f.Kind != kind || !strings.Contains(f.Message, text) {
		t.Errorf("%v, want %s: %s", err, kind, text)
	}
	if strings.Contains(fmt.Sprint(err), "hush") {
		t.Errorf("the secret is in %v", err)
	}
}

// TestWhatS3SaysOfCredentialsAndClocks has answers as AWS gives them, whose status alone does not say what they mean.
func TestWhatS3SaysOfCredentialsAndClocks(t *testing.T) {
	for _, test := range []struct {
		code   string
		status int
		kind   string
	}{
		{"ExpiredToken", 400, fetch.Denied},
		{"InvalidToken", 400, fetch.Denied},
		{"InvalidAccessKeyId", 403, fetch.Denied},
		{"SignatureDoesNotMatch", 403, fetch.Denied},
		{"RequestTimeTooSkewed", 403, fetch.Denied},
		{"AuthorizationHeaderMalformed", 400, fetch.Denied},
		{"AllAccessDisabled", 403, fetch.Denied},
		{"NoSuchBucket", 404, fetch.NotFound},
		{"SlowDown", 503, fetch.Unavailable},
		{"TooManyRequests", 429, fetch.Unavailable},
		{"InternalError", 500, fetch.Unavailable},
		{"InvalidRequest", 400, fetch.Invalid},
	} {
		t.Run(test.code, func(t *testing.T) {
			asked := 0
			s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				asked++
				w.Header().Set("Content-Type", "application/xml")
				w.WriteHeader(test.status)
				_, _ = fmt.Fprintf(w, `<Error><Code>%s</Code><Message>as AWS says it</Message></Error>`, test.code)
			}))
			defer s.Close()
			r := fetch.Request{
				Command: fetch.List, URL: "s3://" + strings.TrimPrefix(s.URL, "http://") + "/bucket/models",
				Credentials: fetch.Credentials{KeyID: "key", SecretKey: "hush", SessionToken: "hush"},
			}
			wantFailure(t, listOf(t, OpenS3, &r), test.kind, test.code)
			if asked > maxTries {
				t.Errorf("it was asked %d times", asked)
			}
		})
	}
}

// TestWhatAzureSaysOfCredentials has an answer to a signature that is over.
func TestWhatAzureSaysOfCredentials(t *testing.T) {
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("X-Ms-Error-Code", "AuthenticationFailed")
		w.WriteHeader(http.StatusForbidden)
	}))
	defer s.Close()
	t.Setenv("AZURE_STORAGE_DOMAIN", strings.TrimPrefix(s.URL, "http://"))
	t.Setenv("AZURE_STORAGE_PROTOCOL", "http")
	t.Setenv("AZURE_STORAGE_SAS_TOKEN", "sv=2023-11-03&se=2020-01-01&sig=hush")
	r := fetch.Request{Command: fetch.List, URL: "as://account/bucket/models"}
	wantFailure(t, listOf(t, OpenAS, &r), fetch.Denied, "AuthenticationFailed")
}

// TestATokenOfGoogleIsAskedForWithTheRightsOfTheCommand asks a server for tokens, which gives none.
func TestATokenOfGoogleIsAskedForWithTheRightsOfTheCommand(t *testing.T) {
	var scope string
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		scope = scopeOf(t, r.FormValue("assertion"))
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(http.StatusBadRequest)
		_, _ = w.Write([]byte(`{"error": "invalid_grant", "error_description": "Token has been expired or revoked."}`))
	}))
	defer s.Close()
	account := serviceAccount(t, s.URL)
	for command, want := range map[string]string{fetch.List: readOnly, fetch.Get: readOnly, fetch.Put: readWrite} {
		scope = ""
		r := fetch.Request{Command: command, URL: "gs://bucket/models", Credentials: fetch.Credentials{ServiceAccount: account}}
		wantFailure(t, listOf(t, OpenGS, &r), fetch.Denied, "invalid_grant Token has been expired or revoked.")
		if scope != want {
			t.Errorf("%s: the token is for %q, want %q", command, scope, want)
		}
	}
	r := fetch.Request{Command: fetch.List, URL: "gs://bucket/models", Credentials: fetch.Credentials{ServiceAccount: `{"type": "hush"`}}
	wantFailure(t, listOf(t, OpenGS, &r), fetch.Denied, "none of Google's")
}

// scopeOf is what an assertion asks for.
func scopeOf(t *testing.T, assertion string) string {
	t.Helper()
	parts := strings.Split(assertion, ".")
	if len(parts) != 3 {
		t.Errorf("no assertion is sent: %q", assertion)
		return ""
	}
	text, err := base64.RawURLEncoding.DecodeString(parts[1])
	var claims struct{ Scope string }
	if err = errors.Join(err, json.Unmarshal(text, &claims)); err != nil {
		t.Error(err)
	}
	return claims.Scope
}

// serviceAccount is a file of credentials as Google makes it, whose tokens come from a URL.
func serviceAccount(t *testing.T, url string) string {
	t.Helper()
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	text, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	account, err := json.Marshal(map[string]string{
		"type": "service_account", "client_email": "box@project.example", "token_uri": url, "private_key_id": "1",
		"private_key": string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: text})),
	})
	if err != nil {
		t.Fatal(err)
	}
	return string(account)
}

// TestURLsThatNameNoBucket are refused before anything is asked.
func TestURLsThatNameNoBucket(t *testing.T) {
	for url, open := range map[string]place.Opener{
		"s3://": OpenS3, "s3://https://": OpenS3, "s3://127.0.0.1:1": OpenS3, "s3://http://user:hush@host/bucket": OpenS3,
		"gs://": OpenGS, "gs:///path": OpenGS, "as://": OpenAS, "as://account": OpenAS, "as://account/": OpenAS,
	} {
		_, err := open(context.Background(), &fetch.Request{Command: fetch.List, URL: url})
		wantFailure(t, err, fetch.Invalid, "the URL names no")
	}
}
