package operator

import (
	"net/url"
	"slices"
	"strings"

	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/internal/incident"
)

// setRemedy sets the remedy of an incident: in words, as a command, and as a page of the console.
func (i *Incident) setRemedy() {
	e := i.Example
	service := string(e.Service)
	i.Command, i.Page, i.Link = "dltbatch instances", "instances", "The instances" // the default, where neither command nor console has a remedy
	switch i.Kind {
	case IncidentNoInstance:
		i.Do = "Start an instance of the application: nothing moves until one runs."
	case IncidentLedgerRefuses:
		i.Do = "Nothing here mends that. Correct the credentials or the address in the application's configuration, and start it again. Nothing is lost: the batches wait."
	case IncidentLedgerDown:
		i.Do = "Nothing here mends that. Look whether the ledger runs and the network leads to it, or ask who runs it. It is tried again all the time, and goes on by itself. Nothing is lost: the batches wait."
	case IncidentLedgerBusy:
		i.Do = "Nothing has to be done for a while: it goes on by itself, as soon as the ledger takes more. If it stays so, ask who runs the ledger, or add less."
	case IncidentGone:
		i.Do = "Nothing has to be done about the batches: once their claims end, a running instance asks the ledger about them. Find out why it has gone, in its log, and start it again."
	case IncidentDecision:
		i.Do = "Look at the ledger whether the batch is there, and then decide."
		i.Command = commandText("decide", "--reason WHY", string(e.ID), rulingWords())
		i.Page, i.Link = batchPagePath(e.Key)+"#decide", "Decide"
		if i.Batches-i.Behind > 1 {
			i.Page, i.Link = consolePath("bulk", "action", string(batch.ActionDecide), "cause", string(batch.CauseDecision)), "Decide about all of them"
		}
		if e.ID != "" && e.Cause != batch.CauseDecision { // no ruling ends this doubt
			i.Do = "It has not moved for long, for the reason above. Mend that: it goes on by itself then. If it must not be sent any more, cancel it, or withdraw it where it is under way."
			i.Command = commandText("explain", "", string(e.ID))
			i.Page, i.Link = batchPagePath(e.Key), "the batch"
		}
	case IncidentHalted:
		i.Do = "Look at the batch that halted the lane, requeue it if it should be sent again, and release the lane."
		if i.Blocker.Cause == batch.CauseHalted { // the halting batch is open again, and waits in its halted lane
			i.Do = "The batch that halted the lane was requeued since. Release the lane: it begins with that batch."
		}
		service = string(e.Control.Service)
		i.Command = commandText("release", "--reason WHY", service)
		i.Page, i.Link = lanePagePath(e.Control.Scope)+"#release", "Release the lane"
	case IncidentPaused:
		i.Do = "Resume " + e.Control.Scope.String() + ", once the reason for the pause is gone."
		i.Command = resumeCommand(e.Control.Scope)
		i.Page, i.Link = lanePagePath(e.Control.Scope)+"#resume", "Resume "+e.Control.Scope.String()
	case IncidentDisagree:
		i.Do = "Correct the instance that is wrong, or finish the deploy, and then say that the others are gone."
		i.Command = commandText("agree", "--reason WHY", service)
		i.Page, i.Link = lanePagePath(batch.Only(e.Service))+"#settings", "the settings of its lane"
	case IncidentNotRecorded:
		i.Do = "Start an instance of this version, or look at the settings on record."
		i.Command = commandText("settings", "", service)
		i.Page, i.Link = lanePagePath(batch.Only(e.Service))+"#settings", "the settings of its lane"
	case IncidentUnserved:
		i.Do = `Look for "lane_held" in the logs of the instances, and give the application a ledger, or options, that serve the lane. Nothing here does that.`
		i.Command = commandText("settings", "", service)
		i.Page, i.Link = lanePagePath(batch.Only(e.Service)), "the lane"
		if e.Cause == batch.CauseUnserved { // the explanation has the reason that an instance gave
			i.Do = "Give the application a ledger, or options, that serve the lane: the reason is above. Nothing here does that."
			i.Command = commandText("explain", "", string(e.ID))
		}
	case IncidentHeld:
		i.Do = "Correct the strategy of the application: it takes nothing from the lane. Nothing here does that."
		i.Command = commandText("explain", "", string(e.ID))
		i.Page, i.Link = lanePagePath(batch.Only(e.Service)), "the lane"
	case IncidentStore:
		i.Do = "The sentence above says what is to be done. Nothing is lost or wrong yet, and it gets worse by itself."
		i.Command = "dltbatch doctor"
	case IncidentGrowing:
		i.Do = "Nothing here makes it faster. If the queue time alone is long, start more instances, which helps where many lanes wait; if submit time or finality are long, the ledger is slow: ask who runs it, or add less."
		i.Command, i.Page, i.Link = "dltbatch status", "./#flow", "How it flows"
	case IncidentSetAside:
		i.Do = "Look at each of them, and requeue or acquit it."
		i.Command, i.Page, i.Link = "dltbatch list --quarantined", consolePath("batches", "show", "quarantined"), "Batches that were set aside"
	case IncidentOrderRefused:
		i.Do = "Look why each was refused, and tell those who sent it: it is never sent again. Add a corrected one as a new order. Nothing waits for it. It stands here for a day."
		i.Command, i.Page, i.Link = "dltbatch orders --state quarantined", consolePath("orders", "state", "quarantined"), "Orders that were refused alone"
	case IncidentCountsOld:
		i.Do = `Look for "stats" in the logs of the instances.`
		i.Command, i.Page, i.Link = "dltbatch status --refresh", "instances", "The instances"
	}
	if i.Kind == IncidentHalted && e.Control.HaltedAt.IsZero() { // the halted lanes are not known
		i.Command, i.Page, i.Link = "dltbatch lanes", consolePath("lanes", "held", "1"), "Lanes that are held"
	}
	if e.ID == "" {
		switch i.Kind {
		case IncidentDecision, IncidentHeld:
			i.Command, i.Page, i.Link = "dltbatch causes --refresh", "./", "Look again" // the batches have changed meanwhile
		case IncidentDisagree, IncidentNotRecorded, IncidentUnserved:
			i.Command, i.Page, i.Link = "dltbatch lanes", "lanes", "the lanes"
		}
	}
}

// Command returns the command that carries out the remedy of an explanation; "" if no command
// does.
func Command(e batch.Explanation) string {
	switch e.Remedy {
	case batch.RemedyResume:
		return resumeCommand(e.Control.Scope)
	case batch.RemedyRelease:
		return commandText("release", "--reason WHY", string(e.Service))
	case batch.RemedyDecide:
		return commandText("decide", "--reason WHY", string(e.ID), rulingWords())
	case batch.RemedyBlocker:
		return commandText("explain", "", string(e.Blocker.ID))
	case batch.RemedyRequeue:
		return commandText("requeue", "--reason WHY", string(e.ID))
	}
	return ""
}

func resumeCommand(s batch.Scope) string {
	if s.All {
		return "dltbatch resume --all --reason WHY"
	}
	return commandText("resume", "--reason WHY", string(s.Service))
}

// commandText returns a command line. If a name begins with "-", "--" precedes the names, so that
// they are not read as flags.
func commandText(verb, flags string, names ...string) string {
	words := []string{"dltbatch", verb}
	flag := slices.ContainsFunc(names, func(n string) bool { return strings.HasPrefix(n, "-") })
	if flag && flags != "" {
		words = append(words, flags)
	}
	if flag {
		words = append(words, "--")
	}
	for _, n := range names {
		if n != rulingWords() { // the person replaces it by one ruling
			n = incident.Quote(n)
		}
		words = append(words, n)
	}
	if !flag && flags != "" {
		words = append(words, flags)
	}
	return strings.Join(words, " ")
}

// rulingWords returns the rulings that a person may give, as one argument of the command line.
func rulingWords() string {
	var words []string
	for _, r := range batch.Rulings() {
		words = append(words, string(r))
	}
	return strings.Join(words, "|")
}

// consolePath returns a relative address in the console; pairs are names and values of its query.
func consolePath(name string, pairs ...string) string {
	q := url.Values{}
	for i := 0; i+1 < len(pairs); i += 2 {
		q.Set(pairs[i], pairs[i+1])
	}
	return name + "?" + q.Encode()
}

func batchPagePath(k batch.Key) string {
	return consolePath("batch", "service", string(k.Service), "id", string(k.ID))
}

func lanePagePath(s batch.Scope) string {
	if s.All {
		return consolePath("lane", "all", "1")
	}
	return consolePath("lane", "service", string(s.Service))
}
