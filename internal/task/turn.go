package task

import "time"

// PriorityStep is what a level of priority is worth: among tasks that wait, one of priority n counts as if it had been
// due n steps earlier. So a task with a low priority waits longer, but not for ever.
const PriorityStep = 30 * time.Second

// The greatest values.
const (
	PriorityLimit   = 9   // of priority
	FairKeyLimit    = 100 // characters of fair_key
	FairWeightLimit = 100 // of fair_weight
)

// Weight returns how many turns the tasks of the fair key get for one of a key with the weight 1.
func (d Definition) Weight() int { return max(d.FairWeight, 1) }

// normalOne returns 0, which is the default, for 1.
func normalOne(n int) int {
	if n == 1 {
		return 0
	}
	return n
}

// ValidateFairKey checks a fair key; "" is none. Error: CodeInvalid.
func ValidateFairKey(key string) error {
	switch {
	case key == "":
		return nil
	case len(key) > FairKeyLimit:
		return Invalid("fair_key", "is %d characters long, at most %d are allowed", len(key), FairKeyLimit)
	case !isName(key):
		return Invalid("fair_key", "%q must be 1 to %d characters of %s", key, FairKeyLimit, nameAlphabet)
	}
	return nil
}

// validateTurn checks what says when the task has its turn among those that wait, which limits count it, and
// where it runs. Error: CodeInvalid.
func (d Definition) validateTurn() error {
	return Join(
		d.validatePriority(), ValidateFairKey(d.FairKey), d.validateWeight(), ValidateLimitKey(d.LimitKey),
		ValidateCost(d.Cost), d.validateReach(),
	)
}

func (d Definition) validatePriority() error {
	if d.Priority < 0 || d.Priority > PriorityLimit {
		return Invalid("priority", "%d must be 0 to %d, the most urgent", d.Priority, PriorityLimit)
	}
	return nil
}

func (d Definition) validateWeight() error {
	switch {
	case d.FairWeight < 0 || d.FairWeight > FairWeightLimit:
		return Invalid("fair_weight", "%d must be 1 to %d", d.FairWeight, FairWeightLimit)
	case d.FairWeight > 0 && d.FairKey == "":
		return Invalid("fair_weight", "belongs to fair_key, which is missing")
	}
	return nil
}
