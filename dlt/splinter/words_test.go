package splinter

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/dltbatch/dltbatch/dlt"
	"github.com/dltbatch/dltbatch/dlt/internal/wire"
)

// Each answer in the tables has its meaning there. Any other answer is doubt: never a success, and
// never the end of a batch. A refusal needs a code in the node's own form.
func TestWords(t *testing.T) {
	for status := range 1000 {
		for body, own := range map[string]bool{
			``: false, `<html>`: false, `{}`: false, `{"message":"m"}`: false, `{"code":400,"message":"Bad Request"}`: false, `{"code":"401"}`: false,
			`{"code":"400x"}`: false, `{"code":["400"]}`: false, `{"error":{"code":"400"}}`: false, `{"code":"400","message":"Invalid body"}`: true,
		} {
			kind := classify(status, parseEnvelope("application/json", []byte(body)), nil, dlt.ErrUnavailable, time.Time{}).Kind
			want, known := submitKinds[status]
			switch {
			case known:
			case status == 404:
				want = dlt.ErrUnavailable
			case status == 400 && own:
				want = dlt.ErrRejected
			case status == 400, wire.Refuses(status):
				want = dlt.ErrMisconfigured
			default:
				want = dlt.ErrDoubt
			}
			assert.Equal(t, want, kind, fmt.Sprint("HTTP ", status, " ", body))
		}
		kind := classifyStatuses(status, nil, dlt.ErrUnavailable, time.Time{}).Kind
		want, known := queryKinds[status]
		switch {
		case known:
		case status == 404:
			want = dlt.ErrUnavailable
		case wire.Refuses(status):
			want = dlt.ErrMisconfigured
		default:
			want = dlt.ErrDoubt
		}
		assert.Equal(t, want, kind, status)
	}
}
