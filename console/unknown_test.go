package console_test

import (
	"net/http"
	"net/url"
	"testing"

	"github.com/stretchr/testify/assert"
)

// An act upon a lane that the store does not know needs a typed word, because the lane's name may
// be a typing error.
func TestALaneThatNobodyKnows(t *testing.T) {
	inStores(t, func(p *person) {
		p.add("payments", "b1")
		form := url.Values{"do": {"pause"}, "service": {"paymemts"}, "version": {"0"}, "reason": {"r"}}
		assert.Contains(p, p.get("lane?service=paymemts").text(), "Nobody knows this lane")
		assert.NotContains(p, p.get("lane?service=payments").text(), "Nobody knows this lane")
		assert.Equal(p, http.StatusBadRequest, p.request(http.MethodPost, p.url+"act", form).status)
		assert.Contains(p, p.get("lanes?held=1").text(), "No lane is held")
		form.Set("confirm", "pause")
		assert.Equal(p, http.StatusOK, p.request(http.MethodPost, p.url+"act", form).status)
		assert.NotContains(p, p.get("lane?service=paymemts").text(), "Nobody knows this lane", "it has a control now")
	})
}

// After an error in a duration, the form keeps the other fields.
func TestAWrongDurationKeepsTheForm(t *testing.T) {
	inStores(t, func(p *person) {
		got := p.request(http.MethodGet, p.url+"bulk?action=cancel&service=lane-7&older=soon", nil)
		assert.Equal(p, http.StatusBadRequest, got.status)
		assert.Contains(p, got.text(), "a duration such as 90s, 15m or 2h30m")
		assert.Contains(p, got.html, `value="lane-7"`)
		assert.Contains(p, got.html, `value="soon"`)
	})
}

// Marks of text direction in a name are shown as visible escapes.
func TestMarksOfDirectionAreShown(t *testing.T) {
	inStores(t, func(p *person) {
		p.add("pay\u202etnem", "b1")
		html := p.get("batches").html
		assert.Contains(p, html, `>pay\u202etnem<`)
		assert.NotContains(p, html, ">pay\u202etnem<")
	})
}
