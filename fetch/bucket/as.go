package bucket

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"strings"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/policy"
	"github.com/Azure/azure-sdk-for-go/sdk/azidentity"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob"
	azblobblob "github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/blob"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/container"
	"gocloud.dev/blob"
	"gocloud.dev/blob/azureblob"

	"github.com/edgewise-ai/edgewise/api/fetch"
	"github.com/edgewise-ai/edgewise/fetch/place"
)

// asURL is what a URL of Triton's says: as://account/container/path. The account may have its domain.
type asURL struct{ account, domain, container, path string }

func parseAS(text string) (u asURL, err error) {
	host, rest, _ := strings.Cut(strings.TrimPrefix(text, "as://"), "/")
	u.account, u.domain, _ = strings.Cut(host, ".")
	u.domain = strings.TrimPrefix(u.domain, "blob.")
	if u.domain != "" {
		u.domain = "blob." + u.domain
	}
	u.container, u.path, _ = strings.Cut(rest, "/")
	if u.account == "" || u.container == "" {
		return u, fetch.Failf(fetch.Invalid, "the URL names no container: want as://account/container/path")
	}
	return u, nil
}

// OpenAS opens a container of Azure's blob storage, or of the server that AZURE_STORAGE_DOMAIN names.
func OpenAS(_ context.Context, r *fetch.Request) (place.Place, error) {
	u, err := parseAS(r.URL)
	if err != nil {
		return nil, err
	}
	options := azureblob.NewDefaultServiceURLOptions()
	options.AccountName = u.account
	if u.domain != "" {
		options.StorageDomain = u.domain
	}
	own := &asClient{}
	client, err := own.open(u, options, r.Credentials)
	if err != nil {
		return nil, fetch.Failf(fetch.Denied, "the credentials cannot be used: %s", plain(err))
	}
	opened, err := azureblob.OpenBucket(context.Background(), client, nil)
	if err != nil {
		return nil, fetch.Failf(fetch.Invalid, "%v", err)
	}
	return &bucket{Bucket: opened, client: own, prefix: below(u.path)}, nil
}

// asClient is what is particular to Azure.
type asClient struct{ anonymous bool }

func (a *asClient) open(u asURL, o *azureblob.ServiceURLOptions, c fetch.Credentials) (*container.Client, error) {
	account, key := c.Account, c.AccountKey
	if account == "" {
		account = os.Getenv("AZURE_STORAGE_ACCOUNT")
	}
	if key == "" {
		key = os.Getenv("AZURE_STORAGE_KEY")
	}
	if account == "" {
		account = u.account
	}
	if key != "" {
		o.SASToken = ""
	}
	service, err := azureblob.NewServiceURL(o)
	if err != nil {
		return nil, err
	}
	where, err := url.JoinPath(string(service), u.container)
	if err != nil {
		return nil, err
	}
	options := &container.ClientOptions{ClientOptions: policy.ClientOptions{
		Retry: policy.RetryOptions{MaxRetries: maxTries - 1}, Transport: &http.Client{Transport: transport()},
	}}
	switch {
	case key != "":
		shared, err := azblob.NewSharedKeyCredential(account, key)
		if err != nil {
			return nil, errors.New("the account key is no Base64")
		}
		return container.NewClientWithSharedKeyCredential(where, shared, options)
	case o.SASToken == "" && hasIdentity():
		identity, err := azidentity.NewDefaultAzureCredential(nil)
		if err != nil {
			return nil, err
		}
		return container.NewClient(where, identity, options)
	}
	a.anonymous = o.SASToken == "" // a container may be public
	return container.NewClientWithNoCredential(where, options)
}

// hasIdentity tells whether the environment says who this machine is for Azure.
func hasIdentity() bool {
	for _, name := range []string{"AZURE_CLIENT_ID", "AZURE_TENANT_ID", "AZURE_FEDERATED_TOKEN_FILE"} {
		if os.Getenv(name) != "" {
			return true
		}
	}
	return false
}

func (*asClient) describe(o *blob.ListObject, e *fetch.Entry) {
	var item container.BlobItem
	if o.As(&item) && item.Properties != nil && item.Properties.ETag != nil {
		e.Tag = string(*item.Properties.ETag)
	}
}

func (*asClient) only(tag string) func(as func(any) bool) error {
	return func(as func(any) bool) error {
		var options *azblobblob.DownloadStreamOptions
		if !as(&options) {
			return errors.New("BUG: reading a blob of Azure has no options")
		}
		// the list says it without quotes, and a condition has them
		quoted := azcore.ETag(`"` + strings.Trim(tag, `"`) + `"`)
		options.AccessConditions = &azblobblob.AccessConditions{
			ModifiedAccessConditions: &azblobblob.ModifiedAccessConditions{IfMatch: &quoted},
		}
		return nil
	}
}

func (*asClient) opened(r *blob.Reader) (tag string, sum place.Sum) {
	var answer azblobblob.DownloadStreamResponse
	if r.As(&answer) && answer.ETag != nil {
		tag = string(*answer.ETag)
	}
	return tag, place.SumListed
}

func (a *asClient) explain(err error) (kind, message string) {
	own, ok := errors.AsType[*azcore.ResponseError](err)
	if !ok {
		if failed, ok := errors.AsType[*azidentity.AuthenticationFailedError](err); ok && failed.RawResponse != nil {
			return fetch.Denied, fmt.Sprintf("no token is given for the identity: %s", failed.RawResponse.Status)
		}
		return "", ""
	}
	kind = kindOfStatus(own.StatusCode)
	message = fmt.Sprintf("the store says %d %s", own.StatusCode, own.ErrorCode)
	if kind == fetch.Denied && a.anonymous {
		message += " (no credentials were found)"
	}
	return kind, message
}
