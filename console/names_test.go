package console_test

import (
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
)

// A name that no store accepts is a bad request on every page and in every form, and no store is
// asked.
func TestANameThatNoStoreTakesIsAWrongRequest(t *testing.T) {
	inStores(t, func(p *person) {
		p.recordServing(nil, "s")
		for name, bad := range map[string]string{"NUL": "a\x00b", "no UTF-8": "a\xff", "too long": strings.Repeat("x", 300), "a control character": "a\x1bb"} {
			for _, at := range []string{"batch?id=a&service=", "batch?service=s&id=", "lane?service=", "batches?service=", "orders?batch=", "search?q=", "audit?after=", "lanes?after=", "progress?token="} {
				got := p.request(http.MethodGet, p.url+at+url.QueryEscape(bad), nil)
				assert.NotEqual(p, http.StatusServiceUnavailable, got.status, "%s in %s", name, at)
				if got.status != http.StatusNotFound {
					assert.Equal(p, http.StatusBadRequest, got.status, "%s in %s", name, at)
				}
			}
		}
	})
}

// An act that needs settings which are not on record gets an error about the settings, and not
// about the database.
func TestSettingsThatAreNotOnRecordAreNoFailureOfTheDatabase(t *testing.T) {
	inStores(t, func(p *person) {
		got := p.request(http.MethodPost, p.url+"act", url.Values{"do": {"agree"}, "service": {"nobody"}, "ledger": {"none"}, "kept": {""}, "reason": {"why"}, "confirm": {"agree"}})
		assert.Equal(p, http.StatusConflict, got.status)
		assert.Contains(p, got.html, "recorded")
	})
}
