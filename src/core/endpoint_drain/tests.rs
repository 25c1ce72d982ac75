mod fleet;
mod rules;
