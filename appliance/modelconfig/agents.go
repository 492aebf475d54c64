package modelconfig

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/edgewise-ai/edgewise"
)

// checksumAgent is the one repository agent that there is: it holds files against sums that the author wrote down.
const checksumAgent = "checksum"

var (
	md5Sum        = regexp.MustCompile(`^[0-9a-fA-F]{32}$`)
	versionFolder = regexp.MustCompile(`^[1-9][0-9]*/`)
)

// Checksums returns the MD5 sums that m's repository agents want files to have, in lower-case hexadecimal by the path
// among the version's files. There are several where the configuration of a folder names the same file of several
// versions: one of them is the version's. The agent knows no other sum; what the store keeps is checked by SHA-256 in
// any case.
func Checksums(m *edgewise.Model) map[string][]string {
	sums := map[string][]string{}
	if m.ModelRepositoryAgents == nil {
		return sums
	}
	for _, agent := range m.ModelRepositoryAgents.Agents {
		for _, key := range sorted(agent.Parameters) {
			if path, ok := checksumPath(key); ok && agent.Name == checksumAgent {
				sums[path] = append(sums[path], strings.ToLower(agent.Parameters[key]))
			}
		}
	}
	return sums
}

// checksumPath reads a parameter's key, "MD5:" and a path in the model's folder. A version's own folder is left out:
// the files of a version stand side by side.
func checksumPath(key string) (path string, ok bool) {
	path, ok = strings.CutPrefix(key, "MD5:")
	return strings.TrimPrefix(path, versionFolder.FindString(path)), ok
}

// agents checks the repository agents. Those that are not there are refused.
func (c *checker) agents() {
	if c.m.ModelRepositoryAgents == nil {
		return
	}
	for i, agent := range c.m.ModelRepositoryAgents.Agents {
		if agent.Name != checksumAgent {
			continue
		}
		what := fmt.Sprintf("model_repository_agents: agents[%d]", i)
		if n := len(agent.Parameters); n > MaxChecksums {
			c.problem("%s: %d parameters, at most %d are allowed", what, n, MaxChecksums)
		}
		for _, key := range sorted(agent.Parameters) {
			path, ok := checksumPath(key)
			if !ok {
				c.problem("%s: parameter %s: want MD5: and the path of a file", what, shown(key))
				continue
			}
			if sum := agent.Parameters[key]; !md5Sum.MatchString(sum) {
				c.problem("%s: parameter %s: want 32 hexadecimal digits, got %.64q", what, shown(key), sum)
			}
			c.path(what+": parameter "+shown(key), path)
		}
	}
}

// otherAgents tells whether m asks for a repository agent that is not there.
func otherAgents(m *edgewise.Model) bool {
	return m.ModelRepositoryAgents != nil && slices.ContainsFunc(m.ModelRepositoryAgents.Agents,
		func(a edgewise.RepositoryAgent) bool { return a.Name != checksumAgent })
}

// firstResponse is the one family of metrics that a model can change.
const firstResponse = "nv_inference_first_response_histogram_ms"

// metrics checks model_metrics. Other families than the one are refused.
func (c *checker) metrics() {
	if c.m.ModelMetrics == nil {
		return
	}
	seen := map[string]bool{}
	for i, control := range c.m.ModelMetrics.MetricControl {
		what := fmt.Sprintf("model_metrics: metric_control[%d]", i)
		switch id := control.MetricIdentifier; {
		case id == nil:
			c.problem("%s: metric_identifier is missing", what)
		case id.Family == "":
			c.problem("%s: metric_identifier: family is empty", what)
		case seen[id.Family]:
			c.problem("%s: family %s stands there twice", what, shown(id.Family))
		default:
			seen[id.Family] = true
		}
		if control.HistogramOptions == nil {
			c.problem("%s: histogram_options is missing", what)
			continue
		}
		c.buckets(what+": histogram_options: buckets", control.HistogramOptions.Buckets)
	}
}

func (c *checker) buckets(what string, buckets []float64) {
	if n := len(buckets); n == 0 || n > MaxBuckets {
		c.problem("%s: want 1 to %d, got %d", what, MaxBuckets, n)
		return
	}
	last := 0.0
	for _, b := range buckets {
		if !(b > last) || b > maxBucket {
			c.problem("%s: want milliseconds above 0 and up to %s, ascending, got %v", what,
				strconv.FormatFloat(maxBucket, 'g', -1, 64), buckets)
			return
		}
		last = b
	}
}

// maxBucket is a day in milliseconds.
const maxBucket = 86400e3

// otherFamilies tells whether m asks for other buckets of a metric that has none of its own for each model.
func otherFamilies(m *edgewise.Model) bool {
	return m.ModelMetrics != nil && slices.ContainsFunc(m.ModelMetrics.MetricControl, func(c edgewise.MetricControl) bool {
		return c.MetricIdentifier != nil && c.MetricIdentifier.Family != "" && c.MetricIdentifier.Family != firstResponse
	})
}
