package client

import (
	"context"
	"encoding/base64"
	"net/http"
	"path"
	"strconv"
	"strings"
	"time"

	"github.com/edgewise-ai/edgewise"
	"github.com/edgewise-ai/edgewise/api/admin"
)

// RegistryScheme begins references of registries where paths may stand, too.
const RegistryScheme = "oci://"

// askAgain is the time between two looks at a job.
const askAgain = 200 * time.Millisecond

// Pull lets the box fetch the version that a reference of a registry names, such as registry.example/models/cat:3, and store it as
// a version of a model; "" takes the last part of the repository's name. With promote it is live afterwards. progress is told
// of each look at the job. It returns the job when that has ended. Errors: those of the job.
func (c *Client) Pull(ctx context.Context, reference, model string, promote bool, progress func(admin.Job)) (*admin.Job, error) {
	id, err := c.sendReference(ctx, reference, model, promote)
	if err != nil {
		return nil, err
	}
	job, err := c.followJob(ctx, id, progress)
	if err != nil || job.State != admin.JobStaged {
		return job, err
	}
	if err := c.call(ctx, http.MethodPost, "/api/v1/jobs/"+id+"/activate", admin.Activate{Promote: &promote}, nil); err != nil {
		return job, err
	}
	return c.followJob(ctx, id, progress)
}

// sendReference uploads a file with a reference, and returns the id of the job that follows.
func (c *Client) sendReference(ctx context.Context, reference, model string, activate bool) (string, error) {
	text := RegistryScheme + strings.TrimPrefix(reference, RegistryScheme)
	name, _, _ := strings.Cut(path.Base(text), "@")
	name, _, _ = strings.Cut(name, ":")
	metadata := "filename " + base64.StdEncoding.EncodeToString([]byte(name+".oci"))
	if model != "" {
		metadata += ",model " + base64.StdEncoding.EncodeToString([]byte(model))
	}
	if activate { // then the box goes on whatever becomes of this program
		metadata += ",activate " + base64.StdEncoding.EncodeToString([]byte("true"))
	}
	res, err := c.do(ctx, http.MethodPost, "/api/v1/uploads", http.Header{
		"Tus-Resumable": {"1.0.0"}, "Upload-Length": {strconv.Itoa(len(text))}, "Upload-Metadata": {metadata},
	}, nil)
	if err != nil {
		return "", err
	}
	_ = res.Body.Close()
	location := res.Header.Get("Location")
	res, err = c.do(ctx, http.MethodPatch, location, http.Header{
		"Tus-Resumable": {"1.0.0"}, "Upload-Offset": {"0"}, "Content-Type": {"application/offset+octet-stream"},
	}, strings.NewReader(text))
	if err != nil {
		return "", err
	}
	_ = res.Body.Close()
	return path.Base(location), nil
}

// followJob waits until a job has ended or waits for a person. Errors: that of the step that has failed.
func (c *Client) followJob(ctx context.Context, id string, progress func(admin.Job)) (*admin.Job, error) {
	for {
		var job admin.Job
		if err := c.call(ctx, http.MethodGet, "/api/v1/jobs/"+id, nil, &job); err != nil {
			return nil, err
		}
		progress(job)
		switch job.State {
		case admin.JobRunning:
		case admin.JobFailed, admin.JobCanceled:
			return &job, failureOf(job)
		default:
			return &job, nil
		}
		select {
		case <-time.After(askAgain):
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

// failureOf is the error of a job's failed step.
func failureOf(job admin.Job) error {
	for _, step := range job.Steps {
		if step.Error != nil {
			return step.Error.Err("client.Pull", 0)
		}
	}
	return edgewise.Errorf("client.Pull", edgewise.Canceled, "the import of %s was canceled", job.Filename)
}

// Publish lets the box publish a version in a registry, under a reference with a tag.
func (c *Client) Publish(ctx context.Context, id edgewise.ModelID, reference string) (admin.PublishedVersion, error) {
	var p admin.PublishedVersion
	return p, c.call(ctx, http.MethodPost, versionPath(id)+"/publish", admin.PublishVersion{Reference: reference}, &p)
}
