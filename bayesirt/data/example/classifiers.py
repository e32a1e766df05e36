"""The classifiers of the shipped example: what they learn from and which cases they are run on."""

from typing import Any, Literal

from sklearn import (
    discriminant_analysis,
    dummy,
    ensemble,
    linear_model,
    naive_bayes,
    neighbors,
    neural_network,
    pipeline,
    preprocessing,
    svm,
    tree,
)

Cases = Literal["all", "clean", "noisy", "half", "no wine"]


def positive(estimator: Any) -> Any:
    """Return the estimator after a scaling to 0..1, for those that refuse negative features."""
    return pipeline.make_pipeline(preprocessing.MinMaxScaler(clip=True), estimator)


# Name, percentage of the training cases it learns from, held-out cases it is run on, estimator.
# The slow ones are run on every second case, as costly systems are.
CLASSIFIERS: list[tuple[str, int, Cases, Any]] = [
    ("most frequent", 100, "all", dummy.DummyClassifier(strategy="most_frequent")),
    ("decision stump", 20, "clean", tree.DecisionTreeClassifier(max_depth=1)),
    ("decision stump", 100, "all", tree.DecisionTreeClassifier(max_depth=1)),
    ("decision tree depth 4", 100, "all", tree.DecisionTreeClassifier(max_depth=4)),
    ("decision tree", 5, "clean", tree.DecisionTreeClassifier()),
    ("decision tree", 20, "all", tree.DecisionTreeClassifier()),
    ("decision tree", 100, "all", tree.DecisionTreeClassifier()),
    ("random forest 10", 5, "clean", ensemble.RandomForestClassifier(10)),
    ("random forest 10", 100, "all", ensemble.RandomForestClassifier(10)),
    ("random forest 200", 20, "all", ensemble.RandomForestClassifier(200)),
    ("random forest 200", 100, "noisy", ensemble.RandomForestClassifier(200)),
    ("extra trees 200", 20, "all", ensemble.ExtraTreesClassifier(200)),
    ("extra trees 200", 100, "noisy", ensemble.ExtraTreesClassifier(200)),
    ("AdaBoost 50", 100, "all", ensemble.AdaBoostClassifier(n_estimators=50)),
    ("gradient boosting 20", 20, "all", ensemble.GradientBoostingClassifier(n_estimators=20)),
    ("gradient boosting 50", 100, "half", ensemble.GradientBoostingClassifier(n_estimators=50)),
    ("hist boosting 30", 100, "half", ensemble.HistGradientBoostingClassifier(max_iter=30)),
    ("logistic C=0.01", 5, "all", linear_model.LogisticRegression(C=0.01)),
    ("logistic C=0.01", 100, "noisy", linear_model.LogisticRegression(C=0.01)),
    ("logistic C=1", 20, "all", linear_model.LogisticRegression(C=1, max_iter=500)),
    ("logistic C=1", 100, "all", linear_model.LogisticRegression(C=1, max_iter=500)),
    ("ridge", 20, "no wine", linear_model.RidgeClassifier()),
    ("ridge", 100, "all", linear_model.RidgeClassifier()),
    ("perceptron", 5, "clean", linear_model.Perceptron()),
    ("perceptron", 100, "all", linear_model.Perceptron()),
    ("SGD hinge", 20, "all", linear_model.SGDClassifier()),
    ("linear SVM", 100, "no wine", svm.LinearSVC(C=0.1)),
    ("RBF SVM", 5, "all", svm.SVC()),
    ("RBF SVM", 20, "all", svm.SVC()),
    ("RBF SVM", 100, "all", svm.SVC()),
    ("kNN k=1", 5, "all", neighbors.KNeighborsClassifier(1)),
    ("kNN k=1", 100, "all", neighbors.KNeighborsClassifier(1)),
    ("kNN k=5", 20, "all", neighbors.KNeighborsClassifier(5)),
    ("kNN k=5", 100, "noisy", neighbors.KNeighborsClassifier(5)),
    ("kNN k=25", 100, "all", neighbors.KNeighborsClassifier(25)),
    ("nearest centroid", 5, "all", neighbors.NearestCentroid()),
    ("nearest centroid", 100, "all", neighbors.NearestCentroid()),
    ("Gaussian NB", 100, "all", naive_bayes.GaussianNB()),
    ("Bernoulli NB", 100, "all", naive_bayes.BernoulliNB()),
    ("multinomial NB", 20, "all", positive(naive_bayes.MultinomialNB())),
    ("complement NB", 100, "no wine", positive(naive_bayes.ComplementNB())),
    ("LDA", 100, "all", discriminant_analysis.LinearDiscriminantAnalysis()),
    ("QDA", 100, "no wine", discriminant_analysis.QuadraticDiscriminantAnalysis(reg_param=0.2)),
    ("MLP 4", 100, "all", neural_network.MLPClassifier(4)),
    ("MLP 32", 20, "all", neural_network.MLPClassifier(32)),
    ("MLP 64+64", 100, "half", neural_network.MLPClassifier((64, 64))),
]
