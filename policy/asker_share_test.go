package policy

import (
	"fmt"
	"testing"
	"time"
)

// askedBy asks for a model's answer once.
func askedBy(a *Asker, caller string, at time.Time) bool {
	_, err := a.Screen(at, askSampling, []byte(`{`+hello+`,"maxTokens":1}`), 0, Audience{Caller: caller})
	return err == nil
}

// TestRateIsShared holds that max_rpm bounds all callers together, and that none of
// several has it all.
func TestRateIsShared(t *testing.T) {
	flood := func(a *Asker, caller string, at time.Time) (n int) {
		for range 20 {
			if askedBy(a, caller, at) {
				n++
			}
		}
		return n
	}
	t.Run("several can come", func(t *testing.T) {
		a := NewAsker("s", Sampling{}, Elicitation{}, Roots{})
		a.Several = func() bool { return true }
		got := fmt.Sprint(flood(a, "a", noon), flood(a, "b", noon), flood(a, "c", noon), flood(a, "d", noon), flood(a, "e", noon))
		if got != "5 3 1 1 0" {
			t.Errorf("got %s", got)
		}
		if n := flood(a, "e", noon.Add(window)); n != 5 {
			t.Errorf("a minute later: %d", n)
		}
	})
	t.Run("another one came", func(t *testing.T) {
		a := NewAsker("s", Sampling{}, Elicitation{}, Roots{})
		if n := flood(a, "a", noon); n != 10 {
			t.Errorf("alone: %d, want all", n)
		}
		if askedBy(a, "b", noon) {
			t.Error("more than max_rpm")
		}
		later := noon.Add(window)
		if got := fmt.Sprint(flood(a, "a", later), askedBy(a, "b", later)); got != "5 true" {
			t.Errorf("then: %s", got)
		}
		if n := flood(a, "a", later.Add(comes)); n != 10 {
			t.Errorf("alone again: %d", n)
		}
	})
	t.Run("the error", func(t *testing.T) {
		a := NewAsker("s", Sampling{}, Elicitation{}, Roots{})
		a.Several = func() bool { return true }
		flood(a, "a", noon)
		_, err := a.Screen(noon, askSampling, nil, 0, Audience{Caller: "a"})
		wantVerdict(t, Verdict{}, err, codeRefused, "more than 5 requests in a minute for one of several callers")
	})
}

// TestRoundsAreACallers holds that a conversation that begins alike is another one
// where it is another caller's.
func TestRoundsAreACallers(t *testing.T) {
	a := NewAsker("s", withTools(2), Elicitation{}, Roots{})
	a.sampling.MaxRPM = 100
	params := []byte(`{` + hello + `,"maxTokens":1,"tools":[{"name":"t","inputSchema":{}}]}`)
	loop := func(caller string) error {
		v, err := a.Screen(noon, askSampling, params, 0, Audience{Caller: caller})
		if err != nil {
			return err
		}
		_, _, err = a.Review(caller, askSampling, v.Params, []byte(`{"role":"assistant","content":{"type":"tool_use","id":"1","name":"t","input":{}},"model":"m","stopReason":"toolUse"}`))
		if err != nil {
			return err
		}
		return nil
	}
	for range 2 {
		if err := loop("a"); err != nil {
			t.Fatal(err)
		}
	}
	if err := loop("b"); err != nil {
		t.Errorf("b's first: %v", err)
	}
	if loop("a") == nil {
		t.Error("a has a third round in a row")
	}
}

// TestLoopsAreShared holds that who begins many conversations loses its own.
func TestLoopsAreShared(t *testing.T) {
	a := NewAsker("s", withTools(1), Elicitation{}, Roots{})
	a.round("b", 7)
	for i := range 3 * maxLoops {
		a.round("a", uint64(i))
	}
	if a.loops.n != maxLoops || a.mayLoop("b", 7) {
		t.Errorf("%d loops are known; b's counts no more", a.loops.n)
	}
}

// TestAgain holds that a question that is screened once more is counted once, and
// that what it may not hold is found all the same.
func TestAgain(t *testing.T) {
	a := NewAsker("s", Sampling{MaxRPM: 1}, Elicitation{}, Roots{})
	again := Audience{Caller: "a", Again: true}
	if !askedBy(a, "a", noon) {
		t.Fatal("the first is refused")
	}
	for range 3 {
		if _, err := a.Screen(noon, askSampling, []byte(`{`+hello+`,"maxTokens":1}`), 0, again); err != nil {
			t.Error(err)
		}
	}
	if _, err := a.Screen(noon, askSampling, []byte(`{}`), 0, again); err == nil {
		t.Error("a bad one passes")
	}
	if got := a.Counts().Sampling; got != (SamplingCounts{Requests: 1}) {
		t.Errorf("got %+v", got)
	}
}
