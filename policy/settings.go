package policy

// Tools is the tools block of one server: the seed's filter keys.
// A nil list is absent; an empty one is present and matches nothing.
type Tools struct {
	// Include, when present, is the only way in: raw upstream names or globs.
	Include []string `yaml:"include,stringorlist"`
	// Exclude is used only when Include is absent.
	Exclude []string `yaml:"exclude,stringorlist"`
	// Resources gates list_resources and read_resource. If nil, true.
	Resources *bool `yaml:"resources"`
	// Prompts gates list_prompts and get_prompt. If nil, true.
	Prompts *bool `yaml:"prompts"`
}
