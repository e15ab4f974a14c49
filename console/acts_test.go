package console_test

import (
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/dlt"
	"github.com/dltbatch/dltbatch/internal/relied"
	"github.com/dltbatch/dltbatch/internal/texts"
	"github.com/dltbatch/dltbatch/queuer"
	"github.com/dltbatch/dltbatch/store"
)

// ticketReason is the reason that people type into each form.
const ticketReason = "ticket 17"

func reasonFields(more ...string) map[string]string {
	words := map[string]string{"reason": ticketReason}
	for i := 0; i+1 < len(more); i += 2 {
		words[more[i]] = more[i+1]
	}
	return words
}

// checkLastAct checks that the last act upon a lane or a batch was this action, by ada, alone or
// as part of a bulk action.
func (p *person) checkLastAct(acts []batch.Act, err error, action batch.Action) {
	p.Helper()
	require.NoError(p, err)
	require.NotEmpty(p, acts)
	last := acts[len(acts)-1]
	assert.Equal(p, action, last.Action)
	assert.Equal(p, ada.Actor, last.Actor)
	if rest, part := strings.CutPrefix(last.Reason, "bulk "); part {
		_, last.Reason, _ = strings.Cut(rest, ": ")
	}
	assert.Equal(p, ada.Reason, last.Reason)
}

// For each incident, a person finds the cause on the first page, and mends it with at most three
// clicks and one typed word.
func TestIncidents(t *testing.T) {
	for name, incident := range map[string]func(p *person){
		"paused and forgotten": func(p *person) {
			p.add("s", "b1", "b2")
			_, _, err := p.st.Steer(p.ctx(), store.Steering{Scope: batch.Only("s"), Action: batch.ActionPause, By: batch.By{Actor: "bob", Reason: "for a moment"}})
			require.NoError(p, err)
			home := p.get("")
			assert.Contains(p, home.text(), "By bob: for a moment")
			after := p.submit(p.followLink(home, `Resume service "s"`), "Resume", reasonFields())
			assert.Contains(p, after.text(), "Done: resume by ada")
			acts, err := p.st.LaneHistory(p.ctx(), batch.Only("s"))
			p.checkLastAct(acts, err, batch.ActionResume)
			assert.NotContains(p, p.get("").text(), "By bob")
		},
		"a halted lane": func(p *person) {
			p.add("s", "b1", "b2")
			_, _, err := p.st.Steer(p.ctx(), store.Steering{Scope: batch.Only("s"), Action: batch.ActionSetPolicy, Policy: batch.PolicyHalt, By: ada})
			require.NoError(p, err)
			p.endAttempt("s", store.Refused, "bad nonce")
			lane := p.followLink(p.get(""), "Release the lane")
			after := p.submit(lane, "Release", reasonFields("confirm", "release"))
			assert.Contains(p, after.text(), "Done: release by ada")
			acts, err := p.st.LaneHistory(p.ctx(), batch.Only("s"))
			p.checkLastAct(acts, err, batch.ActionRelease)
		},
		"a decision after a lost answer": func(p *person) {
			p.add("s", "b1", "b2")
			p.makeUndecided("s", "connection reset")
			b := p.followLink(p.get(""), "Decide")
			assert.Contains(p, b.text(), "connection reset")
			after := p.submit(b, "Decide", reasonFields("ruling", "committed", "confirm", "committed"))
			assert.Contains(p, after.text(), "Done: decide by ada")
			assert.Equal(p, batch.Committed, p.readRecord("s", "b1").State)
			acts, err := p.st.History(p.ctx(), batch.Key{Service: "s", ID: "b1"})
			p.checkLastAct(acts, err, batch.ActionDecide)
		},
		"instances that disagree": func(p *person) {
			p.add("s", "b1", "b2")
			other := traits
			other.ResendHarmlessFor = 0
			p.recordServing(&other, "s")
			lane := p.followLink(p.get(""), "the settings of its lane")
			assert.Contains(p, lane.text(), "The instances disagree")
			after := p.submit(lane, "Agree on the settings", reasonFields("confirm", "agree"))
			assert.NotContains(p, after.text(), "The instances disagree")
			assert.Contains(p, after.text(), `"agreed":{"actor":"ada","reason":"ticket 17"}`)
		},
	} {
		t.Run(name, func(t *testing.T) {
			inStores(t, func(p *person) {
				if !strings.HasPrefix(name, "instances") {
					p.recordServing(nil, "s")
				}
				incident(p)
				assert.LessOrEqual(p, p.clicks, 3)
				p.Logf("%d clicks", p.clicks)
			})
		})
	}
}

// Each act on the page of a batch applies to the version that was seen. An act that the batch's
// state does not allow is disabled, with the reason.
func TestActsUponABatch(t *testing.T) {
	inStores(t, func(p *person) {
		p.recordServing(nil, "s")
		p.add("s", "b1", "b2", "b3")
		key := batch.Key{Service: "s", ID: "b1"}
		page := "batch?service=s&id=b1"
		first := p.get(page)
		for _, not := range []string{"Requeue", "Decide", "Acquit"} {
			assert.Equal(p, "disabled", findButton(first, not).attrs["disabled"], not)
		}
		assert.Contains(p, first.text(), "Cannot requeue from queued.")
		after := p.submit(first, "Cancel", reasonFields("confirm", "cancel"))
		assert.Equal(p, batch.Rejected, p.readRecord("s", "b1").State)
		assert.Contains(p, after.text(), "Done: cancel by ada")
		assert.Equal(p, "disabled", findButton(after, "Cancel").attrs["disabled"])

		again := p.submit(first, "Cancel", reasonFields("confirm", "cancel"))
		assert.Equal(p, http.StatusConflict, again.status)
		assert.Contains(p, again.text(), "is rejected at version")
		moved := p.followLink(again, "Go on to the batch as it is now")
		p.submit(moved, "Requeue", reasonFields("confirm", "requeue"))
		assert.Equal(p, batch.Queued, p.readRecord("s", "b1").State)
		acts, err := p.st.History(p.ctx(), key)
		p.checkLastAct(acts, err, batch.ActionRequeue)

		_, _, err = p.st.Steer(p.ctx(), store.Steering{Scope: batch.Only("s"), Action: batch.ActionSetPolicy, Policy: batch.PolicyQuarantine, By: ada})
		require.NoError(p, err)
		p.endAttempt("s", store.Refused, "poison")
		page = "batch?service=s&id=b1"
		assert.True(p, p.readRecord("s", "b1").Quarantined)
		assert.Contains(p, p.get("batches?show=quarantined").text(), "b1")
		p.submit(p.get(page), "Acquit", reasonFields())
		assert.False(p, p.readRecord("s", "b1").Quarantined)
	})
}

// The page of a batch with prepared bytes offers to withdraw it where its ledger can do that.
func TestWithdraw(t *testing.T) {
	inStores(t, func(p *person) {
		p.recordServing(nil, "s")
		p.add("s", "b1")
		q := store.ClaimQuery{
			Lanes: []batch.ServiceID{"s"}, Limit: 1, Window: 1, TTL: time.Minute,
			Resend: func(batch.ServiceID) store.Resend { return store.Resend{HarmlessFor: dlt.Forever} },
		}
		claimed, err := p.st.Claim(p.ctx(), q, func(batch.Lane) []batch.Run { return []batch.Run{{0}} })
		require.NoError(p, err)
		c := claimed.Runs[0].Batches[0]
		_, err = p.st.KeepPrepared(p.ctx(), []store.Prepared{{Ref: c.Ref, Version: c.Version, Bytes: []byte("nonce 7")}})
		require.NoError(p, err)
		page := "batch?service=s&id=b1"
		assert.Empty(p, findButton(p.get(page), "Withdraw").attrs, "the ledger cannot do it")
		able := traits
		able.Withdraws = true
		text, err := relied.Record{Settings: relied.SettingsOf("s", able, time.Minute, queuer.Serial())}.Text()
		require.NoError(p, err)
		_, err = texts.Put(p.ctx(), p.st, store.Text{Kind: store.TextTraits, Name: traits.Name, Body: text})
		require.NoError(p, err)
		assert.Equal(p, "disabled", findButton(p.get(page), "Withdraw").attrs["disabled"], "the claim is live")
		_, err = p.st.Record(p.ctx(), []store.Outcome{{Ref: c.Ref, Version: c.Version, By: batch.BySubmitter, Finding: store.Accepted}})
		require.NoError(p, err)
		after := p.submit(p.get(page), "Withdraw", reasonFields("confirm", "withdraw"))
		assert.Contains(p, after.text(), "Done: withdraw by ada")
		assert.Contains(p, after.text(), "it is withdrawn")
		assert.True(p, p.readRecord("s", "b1").Withdrawn)
		assert.Equal(p, "disabled", findButton(after, "Withdraw").attrs["disabled"])
	})
}

func findButton(s shownPage, words string) *element {
	for _, b := range s.descendants("button") {
		if strings.TrimSpace(b.text()) == words {
			return b
		}
	}
	return &element{}
}

// A person pauses and resumes a lane and everything, and sets a lane's policy.
func TestActsUponLanes(t *testing.T) {
	inStores(t, func(p *person) {
		control := func(s batch.Scope) batch.Control {
			c, err := p.st.Control(p.ctx(), s)
			require.NoError(p, err)
			return c
		}
		p.add("s", "b1")
		seen := p.get("lane?service=s")
		assert.Equal(p, "disabled", findButton(seen, "Release").attrs["disabled"])
		after := p.submit(seen, "Pause", reasonFields())
		assert.True(p, control(batch.Only("s")).Closed())
		assert.Equal(p, "disabled", findButton(after, "Pause").attrs["disabled"])
		stale := p.submit(seen, "Set the policy", reasonFields("policy", "halt"))
		assert.Equal(p, http.StatusConflict, stale.status, "somebody has paused it since")
		p.submit(p.followLink(stale, `Go on to service "s" as it is now`), "Set the policy", reasonFields("policy", "halt"))
		assert.Equal(p, batch.PolicyHalt, control(batch.Only("s")).Policy)
		p.submit(p.get("lane?service=s"), "Resume", reasonFields())
		assert.False(p, control(batch.Only("s")).Closed())

		all := p.get("lane?all=1")
		to, form := p.form(all, "Pause", reasonFields("confirm", "no"))
		assert.Equal(p, http.StatusBadRequest, p.request(http.MethodPost, to.String(), form).status)
		assert.False(p, control(batch.Everything()).Closed(), "not confirmed")
		after = p.submit(all, "Pause", reasonFields("confirm", "pause"))
		assert.True(p, control(batch.Everything()).Closed())
		assert.Contains(p, after.text(), "Everything is paused by ada")
		assert.Contains(p, p.get("audit").text(), "Everything is paused by ada")
		p.submit(p.followLink(p.get("batches"), "Resume everything"), "Resume", reasonFields("confirm", "resume"))
		assert.False(p, control(batch.Everything()).Closed())
	})
}

// A form with an error does nothing, and the page says what is wrong.
func TestBadForms(t *testing.T) {
	p := newPerson(t)
	p.recordServing(nil, "s")
	p.add("s", "b1")
	before := p.readRecord("s", "b1")
	to, good := p.form(p.get("batch?service=s&id=b1"), "Cancel", reasonFields("confirm", "cancel"))
	for name, c := range map[string]struct {
		field, value string
		status       int
		wantText     string
	}{
		"no reason":       {"reason", "  ", http.StatusBadRequest, "Give a reason"},
		"not confirmed":   {"confirm", "cancle", http.StatusBadRequest, `the word "cancel" has to be typed`},
		"another version": {"version", "7", http.StatusConflict, "has changed since you saw it"},
		"no version":      {"version", "", http.StatusBadRequest, "version"},
		"version 0":       {"version", "0", http.StatusBadRequest, "version"},
		"another time":    {"created", "2020-01-01T00:00:00Z", http.StatusConflict, "has changed since you saw it"},
		"no time":         {"created", "", http.StatusBadRequest, "created"},
		"no such batch":   {"id", "b2", http.StatusNotFound, "never stored"},
		"no such act":     {"do", "prune", http.StatusBadRequest, "do"},
		"no outcome":      {"do", "decide", http.StatusBadRequest, "Ruling is wrong"},
		"not allowed":     {"do", "acquit", http.StatusConflict, "does not allow this"},
		"a header":        {"service", "s\r\nSet-Cookie: x=1", http.StatusNotFound, "never stored"},
	} {
		t.Run(name, func(t *testing.T) {
			form := url.Values{}
			for field := range good {
				form.Set(field, good.Get(field))
			}
			form.Set(c.field, c.value)
			got := p.request(http.MethodPost, to.String(), form)
			assert.Contains(t, []int{c.status, http.StatusBadRequest}, got.status, got.text())
			if got.status == c.status {
				assert.Contains(t, got.text(), c.wantText)
			}
			assert.Equal(t, before, p.readRecord("s", "b1"))
		})
	}
	assert.Equal(t, http.StatusBadRequest, p.request(http.MethodPost, p.url+"act", url.Values{"reason": {strings.Repeat("x", 8<<20+1)}}).status)
}

// Where the ledger's settings are not on record a requeue is refused, with a link to the settings.
func TestSettingsAreNotKnown(t *testing.T) {
	p := newPerson(t)
	p.add("s", "b1")
	p.endAttempt("s", store.Refused, "bad nonce")
	p.add("s", "b2")
	got := p.submit(p.get("batch?service=s&id=b1"), "Requeue", reasonFields("confirm", "requeue"))
	assert.Equal(t, http.StatusConflict, got.status)
	assert.Contains(t, got.text(), "which is not on record")
	assert.Contains(t, p.followLink(got, "Go on to the settings on record").text(), "nothing is on record about its ledger")
	assert.Contains(t, p.get("batch?service=s&id=b2").text(), "not on record")
	assert.Contains(t, p.get("").text(), "No instance runs.")
}

// A bulk action acts only upon the batches of its preview, and its report names the batches that
// it left as they are.
func TestBulk(t *testing.T) {
	inStores(t, func(p *person) {
		p.recordServing(nil, "s")
		p.add("s", "b1", "b2", "b3", "b4")
		require.NoError(p, p.st.Add(p.ctx(), batch.Batch{Service: "s", ID: "tagged", Payload: []byte("x"), Tags: batch.Tags{"invoice": "4711"}}))
		tagged := p.get("bulk?action=cancel&tag=invoice%3D4711")
		assert.Contains(p, tagged.text(), "1 batch, as of")
		p.submit(tagged, "Carry it out: cancel", reasonFields("confirm", "1"))
		assert.Equal(p, batch.Rejected, p.readRecord("s", "tagged").State)
		assert.Equal(p, batch.Queued, p.readRecord("s", "b1").State)
		empty := p.get("bulk?action=acquit")
		assert.Contains(p, empty.text(), "No batch is like this")
		preview := p.get("bulk?action=cancel&service=s&state=queued")
		assert.Contains(p, preview.text(), "4 batches, as of")
		p.add("s", "b5")
		_, err := p.st.Cancel(p.ctx(), p.readRecord("s", "b2"), ada)
		require.NoError(p, err)

		_, form := p.form(preview, "Carry it out: cancel", reasonFields("confirm", "4"))
		form.Set("confirm", "3")
		assert.Equal(p, http.StatusBadRequest, p.request(http.MethodPost, p.url+"bulk", form).status)
		form.Set("confirm", "4")
		form.Set("selection", form.Get("selection")[:40])
		assert.Equal(p, http.StatusBadRequest, p.request(http.MethodPost, p.url+"bulk", form).status)
		assert.Equal(p, batch.Queued, p.readRecord("s", "b1").State)

		report := p.submit(preview, "Carry it out: cancel", reasonFields("confirm", "4"))
		require.Equal(p, http.StatusOK, report.status, report.text())
		assert.Contains(p, report.text(), "4 of 4 batches have had their turn: it was done to 3 of them")
		assert.Contains(p, report.text(), "moved on since it was seen")
		assert.Equal(p, batch.Rejected, p.readRecord("s", "b4").State)
		assert.Equal(p, batch.Queued, p.readRecord("s", "b5").State, "it came later")
		acts, err := p.st.History(p.ctx(), batch.Key{Service: "s", ID: "b1"})
		p.checkLastAct(acts, err, batch.ActionCancel)
		for _, bad := range []string{"action=prune", "action=cancel&state=lost", "action=cancel&tag=%3D", "action=cancel&older=long", "action=cancel&older=-1h", "action=cancel&newer=0s", "action=cancel&error=odd", "action=cancel&cause=odd"} {
			assert.Equal(p, http.StatusBadRequest, p.request(http.MethodGet, p.url+"bulk?"+bad, nil).status, bad)
		}
	})
}

// A person decides the doubts of many lanes at once, with three clicks from the first page.
func TestDecideAll(t *testing.T) {
	inStores(t, func(p *person) {
		p.recordServing(nil, "s", "t")
		p.add("s", "b1")
		p.add("t", "b2")
		p.makeUndecided("s", "connection reset")
		p.makeUndecided("t", "connection reset")
		chosen := map[string]bool{}
		asked := p.followLink(p.get(""), "Decide about all of them")
		for _, in := range asked.descendants("input") {
			if _, on := in.attrs["checked"]; on {
				chosen[in.attrs["name"]+"="+in.attrs["value"]] = true
			}
		}
		assert.Equal(p, map[string]bool{"action=decide": true, "cause=decision": true}, chosen)
		assert.NotContains(p, asked.text(), "Preview: ", "nobody has said what the ledger has")
		p.clicks++
		preview := p.get("bulk?action=decide&cause=decision&ruling=not_executed_reject")
		report := p.submit(preview, "Carry it out: decide not_executed_reject", reasonFields("confirm", "2"))
		assert.Contains(p, report.text(), "2 of 2 batches have had their turn: it was done to 2 of them")
		assert.Equal(p, batch.Rejected, p.readRecord("s", "b1").State)
		assert.Equal(p, batch.Rejected, p.readRecord("t", "b2").State)
		assert.Equal(p, 3, p.clicks)
	})
}

// A bulk action in a browser takes at most ten thousand batches.
func TestBulkIsBounded(t *testing.T) {
	p := newPerson(t)
	p.add("t", orderedIDs(11_501)[1500:]...)
	preview := p.get("bulk?action=cancel&service=t")
	assert.Contains(t, preview.text(), "use the command")
	assert.NotContains(t, preview.html, `name="selection"`)
	assert.Less(t, len(preview.html), 200_000)
}

// While the claim of an attempt is live, no act upon the batch is possible, and the page says so.
func TestALiveClaim(t *testing.T) {
	p := newPerson(t)
	require.NoError(t, new(texts.Presence).Show(p.ctx(), p.st, store.Instance{ID: "1", Name: "one", Ledger: traits.Name}))
	p.recordServing(nil, "s")
	p.add("s", "b1")
	q := store.ClaimQuery{Lanes: []batch.ServiceID{"s"}, Limit: 1, Window: 1, TTL: time.Hour, Instance: "one"}
	_, err := p.st.Claim(p.ctx(), q, func(batch.Lane) []batch.Run { return []batch.Run{{0}} })
	require.NoError(t, err)
	page := p.get("batch?service=s&id=b1")
	assert.Contains(t, page.text(), "one makes attempt 1")
	for _, not := range []string{"Requeue", "Cancel", "Decide", "Acquit"} {
		assert.Equal(t, "disabled", findButton(page, not).attrs["disabled"], not)
	}
	assert.Contains(t, page.text(), "The claim has not expired.")
}
