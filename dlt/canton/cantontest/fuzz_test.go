package cantontest_test

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/dltbatch/dltbatch/dlt/canton/cantontest"
)

// For any bodies the participant answers, and the sum of all balances stays the same.
func FuzzParticipant(f *testing.F) {
	f.Add(commandJSON("b", "b#1", ""), `{"userId":"app","parties":["Alice"],"beginExclusive":0}`)
	f.Add(commandJSON("b", "", `{"DeduplicationOffset":{"value":3}}`), `{"parties":[]}`)
	f.Add(commandJSON("b", "", `{"DeduplicationDuration":{"value":{"seconds":-1}}}`), `{"beginExclusive":-1}`)
	f.Add(`{"commandId":"b","actAs":["a"],"commands":[{"ExerciseCommand":1}],"userId":"u"}`, `[]`)
	f.Fuzz(func(t *testing.T, submission, question string) {
		p, err := cantontest.NewParticipant(&cantontest.Options{CompleteAfter: 1, ListWait: time.Microsecond})
		if err != nil {
			t.Fatal(err)
		}
		defer p.Close()
		for path, body := range map[string]string{"/v2/commands/async/submit": submission, "/v2/commands/completions": question} {
			w := httptest.NewRecorder()
			p.ServeHTTP(w, httptest.NewRequest(http.MethodPost, path, strings.NewReader(body)))
			if w.Code != 200 && w.Code != 400 && w.Code != 404 && w.Code != 409 {
				t.Fatalf("%s: %d %s", path, w.Code, w.Body)
			}
		}
		var sum int64
		for _, balance := range p.Balances() {
			if balance < 0 {
				t.Fatal("less than nothing")
			}
			sum += balance - 1_000_000
		}
		if sum != 0 {
			t.Fatalf("money came out of nothing: %d", sum)
		}
	})
}
