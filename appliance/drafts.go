package appliance

const draftsBucket = "drafts"
