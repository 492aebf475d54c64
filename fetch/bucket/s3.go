package bucket

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	awshttp "github.com/aws/aws-sdk-go-v2/aws/transport/http"
	"github.com/aws/aws-sdk-go-v2/config"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/aws-sdk-go-v2/service/s3/types"
	"github.com/aws/smithy-go"
	"gocloud.dev/blob"
	"gocloud.dev/blob/s3blob"

	"github.com/edgewise-ai/edgewise/api/fetch"
	"github.com/edgewise-ai/edgewise/fetch/place"
)

// answerTimeout is how long a store may take to begin its answer.
const answerTimeout = 30 * time.Second

// s3URL is what a URL of Triton's says: s3://bucket/path, s3://host:port/bucket/path or s3://https://host:port/bucket/path.
type s3URL struct{ endpoint, bucket, path string }

func parseS3(text string) (u s3URL, err error) {
	rest := strings.TrimPrefix(text, "s3://")
	for _, scheme := range []string{"http://", "https://"} {
		if after, ok := strings.CutPrefix(rest, scheme); ok {
			host, path, _ := strings.Cut(after, "/")
			u.endpoint, rest = scheme+host, path
		}
	}
	if host, path, _ := strings.Cut(rest, "/"); u.endpoint == "" && strings.Contains(host, ":") {
		u.endpoint, rest = "http://"+host, path // as in Triton
	}
	u.bucket, u.path, _ = strings.Cut(strings.TrimLeft(rest, "/"), "/")
	endpoint, err := url.Parse(u.endpoint)
	switch {
	case err != nil || u.endpoint != "" && endpoint.Host == "" || endpoint.User != nil:
		return u, fetch.Failf(fetch.Invalid, "the URL names no server: want s3://https://host:port/bucket/path")
	case u.bucket == "":
		return u, fetch.Failf(fetch.Invalid, "the URL names no bucket: want s3://bucket/path")
	}
	return u, nil
}

// OpenS3 opens a bucket of S3, or of a server that speaks its protocol.
func OpenS3(ctx context.Context, r *fetch.Request) (place.Place, error) {
	u, err := parseS3(r.URL)
	if err != nil {
		return nil, err
	}
	loaded, err := awsConfig(ctx, r.Credentials)
	if err != nil {
		return nil, fetch.Failf(fetch.Denied, "the credentials cannot be read: %v", err)
	}
	client := &s3Client{}
	if _, err := loaded.Credentials.Retrieve(ctx); err != nil { // as Triton: a bucket may be public
		loaded.Credentials, client.anonymous = aws.AnonymousCredentials{}, true
	}
	service := s3.NewFromConfig(loaded, func(o *s3.Options) {
		o.DisableLogOutputChecksumValidationSkipped = true
		if u.endpoint != "" {
			o.BaseEndpoint = &u.endpoint
		}
		o.UsePathStyle = o.BaseEndpoint != nil
	})
	opened, err := s3blob.OpenBucket(ctx, service, u.bucket, nil)
	if err != nil {
		return nil, fetch.Failf(fetch.Invalid, "%v", err)
	}
	return &bucket{Bucket: opened, client: client, prefix: below(u.path)}, nil
}

func awsConfig(ctx context.Context, c fetch.Credentials) (aws.Config, error) {
	options := []func(*config.LoadOptions) error{
		config.WithHTTPClient(awshttp.NewBuildableClient().WithTransportOptions(func(t *http.Transport) {
			t.ResponseHeaderTimeout = answerTimeout
		})),
		config.WithDefaultRegion("us-east-1"),
	}
	if c.KeyID != "" || c.SecretKey != "" {
		given := credentials.NewStaticCredentialsProvider(c.KeyID, c.SecretKey, c.SessionToken)
		options = append(options, config.WithCredentialsProvider(given))
	}
	if c.Region != "" {
		options = append(options, config.WithRegion(c.Region))
	}
	if c.Profile != "" {
		options = append(options, config.WithSharedConfigProfile(c.Profile))
	}
	return config.LoadDefaultConfig(ctx, options...)
}

// s3Client is what is particular to S3.
type s3Client struct{ anonymous bool }

func (*s3Client) describe(o *blob.ListObject, e *fetch.Entry) {
	var object types.Object
	if o.As(&object) {
		e.Tag = aws.ToString(object.ETag)
	}
}

func (*s3Client) only(tag string) func(as func(any) bool) error {
	return func(as func(any) bool) error {
		var in *s3.GetObjectInput
		if !as(&in) {
			return errors.New("BUG: reading an object of S3 has no input")
		}
		in.IfMatch = &tag
		return nil
	}
}

// opened: AWS's client compares the checksum of a whole object where the store sends one, as AWS does for all that were
// written since 2025. What looks like an MD5 in the ETag of an object that is encrypted with a key is none.
func (*s3Client) opened(r *blob.Reader) (tag string, sum place.Sum) {
	var out s3.GetObjectOutput
	if !r.As(&out) {
		return "", place.SumListed
	}
	tag = aws.ToString(out.ETag)
	compared, _ := s3.GetChecksumValidationMetadata(out.ResultMetadata)
	switch {
	case len(compared.AlgorithmsUsed) > 0:
		return tag, place.SumVerified
	case out.SSECustomerAlgorithm != nil || out.ServerSideEncryption != "" && out.ServerSideEncryption != types.ServerSideEncryptionAes256:
		return tag, place.SumNone
	}
	return tag, place.SumListed
}

// deniedCodes are those of S3 that say something about the credentials, whatever the status is.
var deniedCodes = map[string]bool{
	"AccessDenied": true, "AuthorizationHeaderMalformed": true, "ExpiredToken": true, "Forbidden": true, "InvalidAccessKeyId": true,
	"InvalidToken": true, "RequestTimeTooSkewed": true, "SignatureDoesNotMatch": true, "TokenRefreshRequired": true,
}

func (c *s3Client) explain(err error) (kind, message string) {
	if answer, ok := errors.AsType[*awshttp.ResponseError](err); ok {
		kind = kindOfStatus(answer.HTTPStatusCode())
	}
	own, ok := errors.AsType[smithy.APIError](err)
	if !ok {
		return kind, ""
	}
	if deniedCodes[own.ErrorCode()] {
		kind = fetch.Denied
	}
	message = fmt.Sprintf("the store says %s: %s", own.ErrorCode(), own.ErrorMessage())
	if kind == fetch.Denied && c.anonymous {
		message += " (no credentials were found)"
	}
	return kind, message
}
