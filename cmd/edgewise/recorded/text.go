package recorded

import (
	"fmt"
	"io"
	"text/tabwriter"
	"time"

	"github.com/dustin/go-humanize"

	"github.com/edgewise-ai/edgewise/api/admin"
)

// Describe writes for people what is recorded of a model.
func Describe(w io.Writer, r *admin.Recording) {
	state := "nothing is recorded"
	if r.Settings.Enabled {
		state = fmt.Sprintf("%.4g %% of the requests are recorded", 100*r.Settings.Share)
	}
	fmt.Fprintf(w, "model %q: %s; %d are kept, %s of %s, for %v\n", r.Model, state, r.Requests, humanize.IBytes(uint64(r.Bytes)),
		humanize.IBytes(uint64(r.Settings.QuotaBytes)), time.Duration(r.Settings.RetentionSeconds)*time.Second)
	for _, m := range r.Settings.Masks {
		fmt.Fprintf(w, "  %s: %s\n", m.Tensor, m.How)
	}
	if r.Problem != "" {
		fmt.Fprintf(w, "  the latest request was not recorded: %s\n", r.Problem)
	}
}

// List writes a table of recorded requests.
func List(w io.Writer, list []admin.RecordedRequest) {
	table := tabwriter.NewWriter(w, 0, 0, 3, ' ', 0)
	fmt.Fprintln(table, "NUMBER\tRECORDED\tVERSION\tTOOK\tSIZE\tEND")
	for _, r := range list {
		end := "answered"
		if r.Failed {
			end = "failed"
		}
		fmt.Fprintf(table, "%d\t%s\t%d\t%.3f ms\t%s\t%s\n", r.Number, r.Recorded.Format(time.RFC3339), r.Version, r.Duration/1000,
			humanize.IBytes(uint64(r.Bytes)), end)
	}
	_ = table.Flush()
}
