# One configuration of the matrix: builds $(TESTS) with $(CXX) $(FLAGS) in $(DIR) and runs each, under $(RUN) if there
# is something to run it under. A test that fails leaves its log and no .passed file; make -k goes on to the next.
passed := $(TESTS:%=$(DIR)/%.passed)

all: $(passed)

$(DIR)/main.o: $(TREE)/tests/main.cpp
	@$(CXX) -std=c++20 $(FLAGS) -c $< -o $@

$(DIR)/%.passed: $(DIR)/%
	@timeout $(SECONDS) $(RUN) $< >$(DIR)/$*.log 2>&1 && touch $@

$(DIR)/%: $(TREE)/tests/test_%.cpp $(DIR)/main.o
	@$(CXX) -std=c++20 $(FLAGS) $< $(DIR)/main.o -o $@ -pthread >$(DIR)/$*.log 2>&1

# A program with a main of its own.
$(DIR)/without_exceptions: $(TREE)/tests/without_exceptions.cpp
	@$(CXX) -std=c++20 $(FLAGS) $< -o $@ -pthread >$(DIR)/without_exceptions.log 2>&1

.SECONDARY:
.PHONY: all
