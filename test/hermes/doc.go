// Package hermes holds that the program serves an agent that behaves like Hermes
// Agent: one test for each thing that agent depends on.
package hermes
